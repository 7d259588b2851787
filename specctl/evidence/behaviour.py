"""Evidence 6 (`--exercise`): the switch at work, under load past the threshold and in the calm after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specctl.config.command import server_env
from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.generator import MODULE, Amount, generator_argv
from specctl.evidence.model import Expectation
from specctl.evidence.onhost import source
from specctl.host.protocol import Host
from specctl.service.unit import server_python

DISTINCT = 8  # different prompts
MOST_REQUESTS = 600  # a threshold that needs more is not exercised
TOKENS = 64  # of each request: long enough to stay above the threshold for many steps
WAVES = 2  # of the generator: requests for each place
LIMIT_S = 600.0
SAMPLE_S = 0.2


@dataclass(frozen=True)
class Run:
    """What one exercise recorded. Texts are None where a request failed."""

    info: Mapping[str, Any] | None = None  # the picked keys of /server_info, before the burst
    info_error: str | None = None
    samples: Sequence[Mapping[str, Any]] = field(default_factory=tuple)  # the switch's state, in order
    alone: Sequence[str | None] = field(default_factory=tuple)  # one text per different prompt
    burst: Sequence[str | None] = field(default_factory=tuple)
    which: Sequence[int] = field(default_factory=tuple)  # the prompt of each request of the burst
    errors: Sequence[str] = field(default_factory=tuple)
    why_own: str | None = None  # why the load was a burst of specctl's own; None: it was the generator's

    @property
    def load(self) -> str:
        """What the load was, in words."""
        if self.why_own is None:
            return f"load by {MODULE}"
        return f"load by a burst of specctl's own, because {MODULE} cannot run here: {self.why_own}"

    @classmethod
    def from_json(cls, raw: Any) -> Run:
        """From what the program on the host printed; odd values become "not there"."""
        raw = raw if isinstance(raw, dict) else {}

        def items(name: str, kind: type) -> tuple[Any, ...]:
            value = raw.get(name)
            return tuple(v if isinstance(v, kind) else None for v in value) if isinstance(value, list) else ()

        info = raw.get("info")
        return cls(
            info=info if isinstance(info, dict) else None,
            info_error=str(raw["info_error"]) if raw.get("info_error") else None,
            samples=tuple(s for s in items("samples", dict) if s is not None),
            alone=items("alone", str),
            burst=items("burst", str),
            which=tuple(n or 0 for n in items("which", int)),
            errors=tuple(e for e in items("errors", str) if e),
            why_own=str(raw.get("why_own")) if raw.get("load") == "own" else None,
        )


def burst_size(threshold: int) -> int:
    """Requests at once that take the batch well past a threshold."""
    return threshold + max(4, threshold // 4)


def exercise(
    host: Host,
    config: HostConfig,
    server: ServerConfig,
    expectation: Expectation,
    *,
    key_files: list[str],
    key: str | None,
    prompts: Sequence[Mapping[str, Any]] = (),
    tokens: int = TOKENS,
) -> Run:
    """Run it on the host. It changes no setting, and is bounded in requests, tokens and time.

    Args:
        prompts: request bodies with "text" or "input_ids" instead of the built-in ones; texts must differ in
            length, because their lengths tell them apart.
        tokens: how many each request generates.
    """
    at_once = min(burst_size(expectation.threshold or 0), MOST_REQUESTS)
    distinct = len(prompts) or min(DISTINCT, at_once)
    params: dict[str, object] = {
        "url": expectation.url,
        "key_files": key_files,
        "key": key,
        "prompts": [dict(p) for p in prompts],
        "distinct": distinct,
        "requests": at_once,
        "tokens": tokens,
        "generator": _orders(config, server, expectation.url, distinct, at_once, tokens),
        "calm_tokens": max(tokens, 8 * (expectation.resume_steps or 4)),
        "calm_rounds": 4,
        "sample_s": SAMPLE_S,
        "limit_s": LIMIT_S,
    }
    raw = host.script(
        source("web", "generator", "exercise"), params, sudo=config.sudo, timeout_s=LIMIT_S + 180.0
    )
    return Run.from_json(raw)


def _orders(
    config: HostConfig, server: ServerConfig, url: str, distinct: int, at_once: int, tokens: int
) -> dict[str, object]:
    """Both runs of the generator: each prompt alone, and more at once than the threshold."""
    python = server_python(config.root, server.name)

    def argv(requests: int, at_once: int) -> list[str]:
        # no warm-up and no emptied cache: the server is left as it was found
        more = ("--output-details", "--warmup-requests", "0")
        amount = Amount(requests, at_once, tokens)
        return list(generator_argv(python, url, server, "{dataset}", amount, *more))

    return {
        "alone": argv(distinct, 1),
        "burst": argv(WAVES * at_once, at_once),
        "requests": WAVES * at_once,
        "env": server_env(server),
    }
