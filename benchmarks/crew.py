"""The servers that are compared: names, command lines, environments. Pure: nothing here starts anything.

A name is `plain`, or a worker and a manner: `v1-static`, `v2-static` (speculation always on), `v1-lazy`,
`v2-warm`, `v2-cold` (switched by batch size; the word is the draft's part while off), `v2-off` (never on).
`plain-normal` is plain without the overlap scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LEVELS = (1, 2, 4, 8, 16, 24, 32, 64, 128)
MANNERS = ("static", "lazy", "warm", "cold", "off")
GRAPHS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True)
class Setup:
    """What all servers of one run share. Token counts are of KV slots; see `8b` and `tiny` below."""

    model: str
    draft: str
    algorithm: str = "EAGLE3"
    accept_length: float | None = 2.5  # simulated; None: the draft really predicts
    # A step's length is drawn once for the whole batch: 2 or 3. SGLang's own default also draws 1 and 4.
    accept_method: str = "match-expected"
    device: str = "cuda"
    backend: str = "triton"
    max_running: int = 128
    max_tokens: int = 52_000
    context: int = 4096
    memory_fraction: float = 0.97  # several servers share the GPU, so max_tokens is what bounds the pool
    graphs: tuple[int, ...] = GRAPHS
    thresholds: Mapping[str, int] = field(default_factory=lambda: {"v1": 16, "v2": 32})
    extra: tuple[str, ...] = ()
    dynamic_extra: tuple[str, ...] = ()
    vocabulary: int = 120_000

    def __post_init__(self) -> None:
        inside = {n for n in self.thresholds.values() if n > 0}
        object.__setattr__(self, "graphs", tuple(sorted(set(self.graphs) | inside)))


def eight_b(models: Path, **changes: object) -> Setup:
    """Llama-3.1-8B's shape with dummy weights and a one-layer EAGLE3 draft; acceptance is simulated."""
    return Setup(model=str(models / "8b"), draft=str(models / "8b-eagle3"), **changes)  # type: ignore[arg-type]


def tiny(models: Path, **changes: object) -> Setup:
    """A four-layer target and a draft distilled on its own greedy text, so acceptance and text are real."""
    settings: dict[str, object] = {
        "model": str(models / "target"),
        "draft": str(models / "eagle3_good"),
        "accept_length": None,
        "max_tokens": 60_000,
        "max_running": 64,
        "context": 2048,
        "vocabulary": 500,
        "thresholds": {"v1": 8, "v2": 8},
        "memory_fraction": 0.9,
        "graphs": (1, 2, 4, 8, 12, 16, 24, 32, 48, 64),
    }
    return Setup(**{**settings, **changes})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Server:
    """One server: `args` follow `-m sglang.launch_server`, without host and port."""

    name: str
    worker: str  # plain, v1, v2
    manner: str  # plain, normal, or one of MANNERS
    threshold: int | None
    args: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def role(self) -> str:
        """plain, static or dynamic: the column of the table."""
        return self.manner if self.manner in ("plain", "normal", "static") else "dynamic"


def server(name: str, setup: Setup) -> Server:
    """The server that a name means under a setup.

    Raises:
        ValueError: no such name.
    """
    worker, _, manner = name.partition("-")
    is_plain = name in ("plain", "plain-normal")
    if not is_plain and (worker not in ("v1", "v2") or manner not in MANNERS):
        raise ValueError(
            f"no server is called {name!r}: plain, plain-normal, "
            f"or v1- or v2- with one of {', '.join(MANNERS)}"
        )
    args, env = common_args(setup), common_env(setup)
    threshold = None
    if name == "plain-normal":
        args.append("--disable-overlap-schedule")
    if not is_plain:
        args += draft_args(setup)
        env["SGLANG_ENABLE_SPEC_V2"] = "1" if worker == "v2" else "0"
        if manner != "static":
            threshold = 0 if manner == "off" else setup.thresholds[worker]
            args += switch_args(threshold, "lazy" if manner == "off" else manner)
            args += setup.dynamic_extra
    return Server(name, worker, manner or "plain", threshold, tuple(args), env)


def common_args(setup: Setup) -> list[str]:
    args = [
        "--model-path",
        setup.model,
        "--skip-tokenizer-init",
        "--attention-backend",
        setup.backend,
        "--sampling-backend",
        "pytorch",
        "--grammar-backend",
        "none",
        "--disable-radix-cache",
        "--mem-fraction-static",
        str(setup.memory_fraction),
        "--max-running-requests",
        str(setup.max_running),
        "--max-total-tokens",
        str(setup.max_tokens),
        "--context-length",
        str(setup.context),
        "--chunked-prefill-size",
        "8192",
        "--decode-log-interval",
        "16",
        "--random-seed",
        "0",
    ]
    if setup.accept_length is not None:
        args += ["--load-format", "dummy"]
    if setup.device == "cpu":
        args += ["--device", "cpu", "--disable-cuda-graph", "--dtype", "float32"]
    else:
        args += ["--dtype", "bfloat16", "--cuda-graph-bs", *map(str, setup.graphs)]
    return [*args, *setup.extra]


def draft_args(setup: Setup) -> list[str]:
    return [
        "--speculative-algorithm",
        setup.algorithm,
        "--speculative-draft-model-path",
        setup.draft,
        "--speculative-num-steps",
        "3",
        "--speculative-eagle-topk",
        "1",
        "--speculative-num-draft-tokens",
        "4",
    ]


def switch_args(threshold: int, sync: str) -> list[str]:
    return [
        "--speculative-disable-batch-threshold",
        str(threshold),
        "--speculative-disable-draft-sync",
        sync,
    ]


def common_env(setup: Setup) -> dict[str, str]:
    env = {
        "HF_HUB_OFFLINE": "1",
        "SGLANG_ENABLE_JIT_DEEPGEMM": "0",
        "SGLANG_ENABLE_SPEC_V2": "0",
        "SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK": "1",
    }
    if setup.accept_length is not None:
        env["SGLANG_SIMULATE_ACC_LEN"] = str(setup.accept_length)
        env["SGLANG_SIMULATE_ACC_METHOD"] = setup.accept_method
    return env


def rotation(names: Sequence[str], turn: int) -> list[str]:
    """The order of visits in one block: each server is first, last and in between equally often."""
    start = turn % len(names)
    order = [*names[start:], *names[:start]]
    return order[::-1] if (turn // len(names)) % 2 else order


def write_shapes(models: Path) -> None:
    """Write the config-only folders of the 8B shape and of its draft (the weights are dummy)."""
    shape = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
    }
    target = dict(shape, architectures=["LlamaForCausalLM"], num_hidden_layers=32)
    draft = dict(shape, architectures=["LlamaForCausalLMEagle3"], num_hidden_layers=1, draft_vocab_size=32000)
    for name, config in (("8b", target), ("8b-eagle3", draft)):
        (models / name).mkdir(parents=True, exist_ok=True)
        (models / name / "config.json").write_text(json.dumps(config))
