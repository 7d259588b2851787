"""Evidence 6 (`--exercise`): the switch at work, in a burst past the threshold and the calm after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specctl.evidence.model import Expectation
from specctl.evidence.onhost import source
from specctl.host.protocol import Host

DISTINCT = 8  # different prompts
MOST_REQUESTS = 600  # a threshold that needs more is not exercised
TOKENS = 64  # of each request: long enough to stay above the threshold for many steps
LIMIT_S = 420.0
SAMPLE_S = 0.2


@dataclass(frozen=True)
class Run:
    """What one exercise recorded. Texts are None where a request failed."""

    info: Mapping[str, Any] | None = None  # the picked keys of /server_info, before the burst
    info_error: str | None = None
    samples: Sequence[Mapping[str, Any]] = field(default_factory=tuple)  # the switch's state, in order
    alone: Sequence[str | None] = field(default_factory=tuple)  # one text per different prompt
    burst: Sequence[str | None] = field(default_factory=tuple)  # request i used prompt i modulo their number
    errors: Sequence[str] = field(default_factory=tuple)

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
            errors=tuple(e for e in items("errors", str) if e),
        )


def burst_size(threshold: int) -> int:
    """Requests at once that take the batch well past a threshold."""
    return threshold + max(4, threshold // 4)


def exercise(
    host: Host,
    expectation: Expectation,
    *,
    key_files: list[str],
    key: str | None,
    sudo: bool,
    prompts: Sequence[Mapping[str, Any]] = (),
    tokens: int = TOKENS,
) -> Run:
    """Run it on the host. It changes no setting, and is bounded in requests, tokens and time.

    Args:
        prompts: request bodies with "text" or "input_ids" instead of the built-in ones.
        tokens: how many each request generates.
    """
    requests = min(burst_size(expectation.threshold or 0), MOST_REQUESTS)
    params: dict[str, object] = {
        "url": expectation.url,
        "key_files": key_files,
        "key": key,
        "prompts": [dict(p) for p in prompts],
        "distinct": min(DISTINCT, requests),
        "requests": requests,
        "tokens": tokens,
        "calm_tokens": max(tokens, 8 * (expectation.resume_steps or 4)),
        "calm_rounds": 4,
        "sample_s": SAMPLE_S,
        "limit_s": LIMIT_S,
    }
    raw = host.script(source("web", "exercise"), params, sudo=sudo, timeout_s=LIMIT_S + 180.0)
    return Run.from_json(raw)
