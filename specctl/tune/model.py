"""What is measured, and what is made of it: plain data, with its JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any


class Mode(str, Enum):
    """How the server decodes in a run."""

    OFF = "off"  # threshold 0 on the speculative server
    ON = "on"  # a threshold that is never exceeded: static speculation
    DYNAMIC = "dynamic"  # the proposed threshold
    PLAIN = "plain"  # a server that was started without speculation


@dataclass(frozen=True)
class Sample:
    """One run of the load generator."""

    mode: Mode
    context: str  # name of the workload: a prompt length, or a data set's name
    level: int  # requests kept in flight
    repetition: int
    tokens_per_s: float  # generated, all requests together
    tpot_ms: float  # median over requests: milliseconds for each token after the first
    itl_p99_ms: float  # 99th percentile of the gaps between answers
    ttft_ms: float  # median time to the first token
    completed: int
    input_tokens: float  # mean of a prompt
    output_tokens: float  # mean of an answer
    concurrency: float  # requests in flight on average, as measured
    accept_length: float | None = None  # tokens a speculative step

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "mode": self.mode.value}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Sample:
        known = {f.name for f in fields(cls)}
        return cls(**{**{k: v for k, v in raw.items() if k in known}, "mode": Mode(raw["mode"])})


@dataclass(frozen=True)
class Pair:
    """Throughput with and without speculation at one level, measured one right after the other."""

    level: int
    on: float  # tokens/s
    off: float  # tokens/s


def pairs_of(samples: Iterable[Sample], context: str | None = None) -> list[Pair]:
    """Pairs of one workload, or of all (None), in order of level; a run without its partner is left out."""
    found: dict[tuple[str, int, int], dict[Mode, float]] = {}
    for s in samples:
        if context is None or s.context == context:
            found.setdefault((s.context, s.level, s.repetition), {})[s.mode] = s.tokens_per_s
    pairs = [
        Pair(level, runs[Mode.ON], runs[Mode.OFF])
        for (_, level, _), runs in found.items()
        if runs.get(Mode.ON, 0) > 0 and runs.get(Mode.OFF, 0) > 0
    ]
    return sorted(pairs, key=lambda p: p.level)


def contexts_of(samples: Sequence[Sample]) -> list[str]:
    """The workloads in the order in which they were measured."""
    return list(dict.fromkeys(s.context for s in samples))
