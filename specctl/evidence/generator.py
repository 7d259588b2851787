"""The command line of SGLang's own load generator, as `tune` and `verify --exercise` both run it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from specctl.config.model import ServerConfig
from specctl.evidence.expectation import launch_args

MODULE = "sglang.bench_serving"
_TOKENIZER = "--tokenizer-path"


@dataclass(frozen=True)
class Amount:
    """How much load: `requests` in all, `at_once` of them in flight, `output_tokens` for each."""

    requests: int
    at_once: int
    output_tokens: int
    seed: int = 1  # of the order of prompts


def generator_argv(
    python: str, url: str, server: ServerConfig, dataset: str, amount: Amount, *more: str
) -> tuple[str, ...]:
    """The generator's command line, but for its output file: greedy, with answers of a fixed length.

    Args:
        python: the release's interpreter on the host.
        dataset: a file on the host in the generator's `custom` format.
        more: further arguments of the generator.
    """
    args = launch_args(server)
    tokenizer = next((args[i + 1] for i, a in enumerate(args[:-1]) if a == _TOKENIZER), None)
    return (
        *(python, "-m", MODULE),
        *("--backend", "sglang", "--base-url", url),
        *("--model", server.model),
        *(("--tokenizer", tokenizer) if tokenizer else ()),
        *("--dataset-name", "custom", "--dataset-path", dataset),
        *("--sharegpt-output-len", str(amount.output_tokens)),
        *("--num-prompts", str(amount.requests), "--max-concurrency", str(amount.at_once)),
        *("--seed", str(amount.seed), "--disable-tqdm"),
        *more,
    )
