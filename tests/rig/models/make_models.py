"""Makes the tiny models of the rig: a Llama target and four draft models, about 3 MB together.

    python tests/rig/models/make_models.py [FOLDER]        (under the rig's Python; some minutes on one core)

The weights are in the repository; this is how they were made. Seeded and single-threaded, so that two runs
on one torch release write the same bytes (`make_models.py --check` regenerates and compares).

The target is random, scaled so that the newest token decides about three quarters of its next tokens and
the context decides the rest: a damaged KV cache changes the output, and a small draft can still learn it.
`*_good` drafts are distilled from the target's own greedy text, `*_rand` drafts are untrained.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import math
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

HERE = Path(__file__).parent
VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, MLP, CONTEXT = 512, 64, 4, 4, 2, 256, 2048
HEAD = HIDDEN // HEADS
EPSILON, ROPE_BASE = 1e-5, 10000.0
AUX_LAYERS = (0, 1, 2)  # EAGLE3 reads the target's hidden states behind these layers
BOS, EOS = 0, 1
DRAFT_DEPTH = 3  # steps that a draft is trained to look ahead
TRAINING_STEPS, TRAINING_BATCH = 1200, 24


def linear(inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=bias)


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (HIDDEN,), self.weight, EPSILON)


def rotate(x: Tensor) -> Tensor:
    """Rotary positions, first and second half of a head paired (as Llama checkpoints have it)."""
    frequency = ROPE_BASE ** (-torch.arange(0, HEAD, 2).float() / HEAD)
    angle = torch.arange(x.shape[-2]).float()[:, None] * frequency
    first, second = x.chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, inputs: int = HIDDEN) -> None:
        super().__init__()
        self.q_proj = linear(inputs, HEADS * HEAD)
        self.k_proj = linear(inputs, KV_HEADS * HEAD)
        self.v_proj = linear(inputs, KV_HEADS * HEAD)
        self.o_proj = linear(HEADS * HEAD, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        def heads(y: Tensor) -> Tensor:
            return y.unflatten(-1, (-1, HEAD)).transpose(1, 2)

        q, k, v = rotate(heads(self.q_proj(x))), rotate(heads(self.k_proj(x))), heads(self.v_proj(x))
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, dim=1) for t in (k, v))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (
            linear(HIDDEN, MLP),
            linear(HIDDEN, MLP),
            linear(MLP, HIDDEN),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, input_norm: bool = True) -> None:
        super().__init__()
        self.self_attn, self.mlp, self.post_attention_layernorm = Attention(), FeedForward(), Norm()
        self.input_layernorm = Norm() if input_norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Target(nn.Module):
    """Llama. The scales decide how much of the next token the context decides."""

    architecture, folder = "LlamaForCausalLM", "target"

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens, self.lm_head, self.norm = (
            nn.Embedding(VOCAB, HIDDEN),
            linear(HIDDEN, VOCAB),
            Norm(),
        )
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        nn.init.normal_(self.embed_tokens.weight, std=1.0)
        nn.init.normal_(self.lm_head.weight, std=0.5)
        for number, layer in enumerate(self.layers):
            for parameter in layer.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=1 / math.sqrt(parameter.shape[1]))
            layer.self_attn.q_proj.weight.data *= 1.5
            layer.self_attn.k_proj.weight.data *= 1.5
            layer.self_attn.o_proj.weight.data *= 0.2
            layer.mlp.down_proj.weight.data *= 2.0 if number == 0 else 0.3

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, final hidden states, and the hidden states that EAGLE3 reads, side by side."""
        x, read = self.embed_tokens(tokens), []
        for number, layer in enumerate(self.layers):
            if number - 1 in AUX_LAYERS:
                read.append(x)
            x = layer(x)
        x = self.norm(x)
        return self.lm_head(x), x, torch.cat(read, dim=-1)


class Eagle(nn.Module):
    """One layer over (embedding of the next token, hidden state); the target's own head reads it."""

    architecture, name = "LlamaForCausalLMEagle", "eagle"

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.layers = linear(2 * HIDDEN, HIDDEN, bias=True), nn.ModuleList([Layer(input_norm=False)])

    def start_from(self, target: Target) -> None:
        """Begin as: the target's first layer over the embedding alone."""
        self.layers[0].load_state_dict(target.layers[0].state_dict(), strict=False)
        self.fc.weight.data.zero_()
        self.fc.weight.data[:, :HIDDEN] = torch.eye(HIDDEN)
        self.fc.bias.data.zero_()

    def enter(self, hidden: Tensor, _: Tensor) -> Tensor:
        return hidden

    def forward(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return self.layers[0](self.fc(torch.cat([embedded, hidden], dim=-1)))

    def logits(self, hidden: Tensor, target: Target) -> Tensor:
        return target.lm_head(hidden)


class Midlayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(2 * HIDDEN), FeedForward()
        self.hidden_norm, self.input_layernorm, self.post_attention_layernorm = Norm(), Norm(), Norm()

    def forward(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        both = torch.cat([self.input_layernorm(embedded), self.hidden_norm(hidden)], dim=-1)
        hidden = hidden + self.self_attn(both)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Eagle3(nn.Module):
    """One layer over (embedding of the next token, three hidden states mixed down), with its own head."""

    architecture, name = "LlamaForCausalLMEagle3", "eagle3"

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.midlayer = linear(len(AUX_LAYERS) * HIDDEN, HIDDEN), Midlayer()
        self.norm, self.lm_head = Norm(), linear(HIDDEN, VOCAB)

    def start_from(self, target: Target) -> None:
        self.lm_head.load_state_dict(target.lm_head.state_dict())

    def enter(self, _: Tensor, read: Tensor) -> Tensor:
        return self.fc(read)

    def forward(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return self.midlayer(embedded, hidden)

    def logits(self, hidden: Tensor, _: Target) -> Tensor:
        return self.lm_head(self.norm(hidden))


@torch.no_grad()
def greedy_text(target: Target, rows: int = 256, prompt: int = 8, tokens: int = 88) -> Tensor:
    text = torch.randint(2, VOCAB, (rows, prompt))
    for _ in range(tokens):
        text = torch.cat([text, target(text)[0][:, -1:].argmax(dim=-1)], dim=1)
    return text


def distil(draft: Eagle | Eagle3, target: Target, text: Tensor) -> None:
    """Teach the draft the target's choice after token i + 1, from the hidden state at i, DRAFT_DEPTH deep."""
    with torch.no_grad():
        logits, hidden, read = target(text)
    choice = logits.argmax(dim=-1)
    optimizer = torch.optim.AdamW(draft.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, TRAINING_STEPS)
    for step in range(TRAINING_STEPS):
        rows = torch.randint(0, len(text), (TRAINING_BATCH,))
        embedded, wanted = target.embed_tokens(text[rows, 1:]), choice[rows, 1:]
        state = draft.enter(hidden[rows, :-1], read[rows, :-1])
        loss, right = torch.zeros(()), []
        for depth in range(DRAFT_DEPTH):
            state = draft(embedded, state)
            guess = draft.logits(state, target)
            loss = loss + F.cross_entropy(guess.flatten(0, 1), wanted.flatten())
            if isinstance(draft, Eagle):  # its output stands in for the target's hidden state
                loss = loss + F.smooth_l1_loss(state, hidden[rows, 1 + depth :])
            right.append(round((guess.argmax(dim=-1) == wanted).float().mean().item(), 3))
            embedded, wanted, state = embedded[:, 1:], wanted[:, 1:], state[:, :-1]
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0 or step == TRAINING_STEPS - 1:
            print(
                f"{draft.name} step {step}: loss {loss.item():.3f}, right at each depth {right}", flush=True
            )


def configuration(architecture: str, layers: int) -> dict[str, object]:
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": EPSILON,
        "rope_theta": ROPE_BASE,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "attention_bias": False,
        "mlp_bias": False,
        "use_cache": True,
    }


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write_model(folder: Path, config: dict[str, object], weights: dict[str, Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    plain = {name: tensor.detach().clone().contiguous() for name, tensor in weights.items()}
    save_file(plain, folder / "model.safetensors", metadata={"format": "pt"})


def write_tokenizer(folder: Path) -> None:
    """Word level: token i is the word `ti`."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"<s>": BOS, "</s>": EOS, **{f"t{i}": i for i in range(2, VOCAB)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="t2"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="t2",
        model_max_length=CONTEXT,
    ).save_pretrained(folder)
    write_json(folder / "generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS})


def make(folder: Path) -> None:
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    target = Target().eval().requires_grad_(False)
    named = {(n if n.startswith("lm_head") else f"model.{n}"): w for n, w in target.state_dict().items()}
    write_model(folder / "target", configuration(Target.architecture, LAYERS), named)
    write_tokenizer(folder / "target")
    text = greedy_text(target)
    for kind in (Eagle, Eagle3):
        good, random = kind(), kind()
        good.start_from(target)
        distil(good, target, text)
        config = configuration(kind.architecture, 1)
        if kind is Eagle3:
            config["draft_vocab_size"] = VOCAB
            config["eagle_config"] = {
                "use_aux_hidden_state": True,
                "eagle_aux_hidden_state_layer_ids": list(AUX_LAYERS),
            }
        for suffix, draft in (("good", good), ("rand", random)):
            weights = {**draft.state_dict(), "embed_tokens.weight": target.embed_tokens.weight}
            write_model(folder / f"{kind.name}_{suffix}", config, weights)


def check(folder: Path) -> list[str]:
    """Files that a regeneration writes differently from those in `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch))
        made = sorted(p.relative_to(scratch) for p in Path(scratch).rglob("*") if p.is_file())
        return [str(p) for p in made if not filecmp.cmp(Path(scratch) / p, folder / p, shallow=False)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=HERE)
    parser.add_argument("--check", action="store_true", help="regenerate elsewhere and compare with FOLDER")
    arguments = parser.parse_args()
    if not arguments.check:
        make(arguments.folder)
    elif different := check(arguments.folder):
        raise SystemExit(f"regenerated files differ: {', '.join(different)}")


if __name__ == "__main__":
    main()
