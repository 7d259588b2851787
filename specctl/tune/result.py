"""What a sweep found: the crossover of each workload and of all, the proposal, and the checks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from specctl.tune.crossover import Crossover, find_crossover
from specctl.tune.model import Mode, Sample, contexts_of, pairs_of
from specctl.tune.plain_check import PlainCheck, check_plain
from specctl.tune.recommend import Recommendation, interval, recommend
from specctl.tune.values import Values


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
    plain: PlainCheck = field(default_factory=PlainCheck)
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
            "plain_check": self.plain.as_dict(),
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
    why_not_plain: str = "",
) -> Result:
    """From samples to a result.

    Args:
        why_not_plain: why there are no samples of a plain server, where there are none.

    Raises:
        ValueError: fewer than two levels have both runs.
    """
    contexts = contexts_of(samples)
    overall = find_crossover(pairs_of(samples))
    by_context = {c: find_crossover(pairs_of(samples, c)) for c in contexts if _levels(samples, c) > 1}
    plain = check_plain(samples, why_not_plain)
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
        tuple(notes_of(samples, overall, by_context)),
        taken_at,
        versions,
    )


def notes_of(
    samples: Sequence[Sample],
    overall: Crossover,
    by_context: dict[str, Crossover],
) -> list[str]:
    """What a reader must know to believe the numbers."""
    notes = []
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
