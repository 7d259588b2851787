"""What a sweep found: the crossover of each workload and of all, the proposal, and the checks. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any

from specctl.tune.crossover import Crossover, find_crossover
from specctl.tune.model import Mode, Sample, contexts_of, pairs_of
from specctl.tune.recommend import Recommendation, interval, recommend
from specctl.tune.values import Values

PLAIN_LIMIT = 0.02  # by how much "off" may differ from a server that was started without speculation


@dataclass(frozen=True)
class PlainCheck:
    """Off against a true plain server."""

    ratio: float  # off / plain, geometric mean over levels and workloads
    error: float  # 95 % of it lies within ratio +- this; from the scatter over levels
    levels: tuple[tuple[str, int, float], ...]  # workload, level, off / plain

    @property
    def good(self) -> bool:
        return abs(math.log(self.ratio)) <= math.log(1 + PLAIN_LIMIT)

    @property
    def sentence(self) -> str:
        speed = f"{self.ratio:.1%} (+- {self.error:.1%})"
        said = f"off runs at {speed} of a server that was started without speculation"
        if self.good:
            return f"{said}: within {PLAIN_LIMIT:.0%}"
        return f"{said}: NOT within {PLAIN_LIMIT:.0%}, so these curves flatter or blame the switch"


@dataclass(frozen=True)
class Result:
    """Everything that a report shows."""

    host: str
    server: str
    limit: int  # requests at once
    samples: tuple[Sample, ...]
    overall: Crossover
    by_context: dict[str, Crossover]
    proposal: Recommendation
    before: Values
    plain: PlainCheck | None = None  # None: no plain server was started
    notes: tuple[str, ...] = field(default_factory=tuple)
    taken_at: str = ""
    versions: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "host": self.host,
            "server": self.server,
            "taken_at": self.taken_at,
            "versions": self.versions,
            "limit": self.limit,
            "before": self.before.as_dict(),
            "proposal": {
                **self.proposal.values.as_dict(),
                "sentence": self.proposal.sentence,
                "advice": self.proposal.advice,
            },
            "crossover": _crossover(self.overall),
            "by_context": {name: _crossover(found) for name, found in self.by_context.items()},
            "plain_check": {**asdict(self.plain), "good": self.plain.good} if self.plain else None,
            "notes": list(self.notes),
            "samples": [s.as_dict() for s in self.samples],
        }


def conclude(
    host: str,
    server: str,
    limit: int,
    samples: Sequence[Sample],
    before: Values,
    *,
    taken_at: str = "",
    versions: str = "",
) -> Result:
    """From samples to a result.

    Raises:
        ValueError: fewer than two levels have both runs.
    """
    contexts = contexts_of(samples)
    overall = find_crossover(pairs_of(samples))
    by_context = {c: find_crossover(pairs_of(samples, c)) for c in contexts if _levels(samples, c) > 1}
    plain = check_plain(samples)
    return Result(
        host,
        server,
        limit,
        tuple(samples),
        overall,
        by_context,
        recommend(overall, limit, samples),
        before,
        plain,
        tuple(notes_of(samples, overall, by_context, plain)),
        taken_at,
        versions,
    )


def check_plain(samples: Sequence[Sample]) -> PlainCheck | None:
    """Compare off with plain wherever both were measured."""

    def speeds(mode: Mode) -> dict[tuple[str, int], float]:
        found: dict[tuple[str, int], list[float]] = {}
        for s in samples:
            if s.mode is mode:
                found.setdefault((s.context, s.level), []).append(math.log(s.tokens_per_s))
        return {key: fmean(values) for key, values in found.items()}

    off, plain = speeds(Mode.OFF), speeds(Mode.PLAIN)
    both = [(c, level, off[c, level] - plain[c, level]) for c, level in plain if (c, level) in off]
    if not both:
        return None
    levels = tuple((c, level, math.exp(d)) for c, level, d in both)
    logs = [d for _, _, d in both]
    error = 1.96 * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return PlainCheck(math.exp(fmean(logs)), error, levels)


def notes_of(
    samples: Sequence[Sample],
    overall: Crossover,
    by_context: dict[str, Crossover],
    plain: PlainCheck | None,
) -> list[str]:
    """What a reader must know to believe the numbers."""
    notes = []
    if plain is None:
        notes.append(
            "off was not compared with a server that was started without speculation (--plain-boot does it)"
        )
    else:
        notes.append(plain.sentence)
    if overall.against:
        ratios = {g.level: g.ratio for g in overall.gains}
        told = ", ".join(f"{level} ({ratios[level]:.2f}x)" for level in overall.against)
        notes.append(f"one threshold cannot follow the measurements at {told}: they are on its wrong side")
    bands = list(by_context.items())
    for i, (name, one) in enumerate(bands):
        for other, two in bands[i + 1 :]:
            if _apart(one, two):
                notes.append(
                    f"{name} and {other} cross at different places ({interval(one)}; {interval(two)}): "
                    "the proposal is the best for both together"
                )
    low = [s for s in samples if s.concurrency and s.concurrency < 0.7 * s.level and s.mode is not Mode.PLAIN]
    if low:
        levels = sorted({s.level for s in low})
        notes.append(
            f"at {', '.join(map(str, levels))} fewer requests were in flight than asked for: "
            "more waves (--waves) keep the level up for longer"
        )
    return notes


def _apart(one: Crossover, two: Crossover) -> bool:
    """Whether the bands do not overlap."""

    def below(a: Crossover, b: Crossover) -> bool:
        return a.high is not None and b.low is not None and a.high < b.low

    return below(one, two) or below(two, one)


def _levels(samples: Sequence[Sample], context: str) -> int:
    return len({p.level for p in pairs_of(samples, context)})


def _crossover(found: Crossover) -> dict[str, Any]:
    return {**asdict(found), "verdict": found.verdict.value}
