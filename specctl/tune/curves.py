"""What the plots and tables show of the samples: one point for each mode, workload and level. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from specctl.tune.model import Mode, Sample

LABELS = {
    Mode.PLAIN: "plain server",
    Mode.OFF: "plain (speculation off)",
    Mode.ON: "static (speculation on)",
    Mode.DYNAMIC: "dynamic (proposed threshold)",
}


@dataclass(frozen=True)
class Point:
    """Averages over repetitions, and the lowest and highest throughput."""

    level: int
    tokens_per_s: float
    lowest: float
    highest: float
    tpot_ms: float
    itl_p99_ms: float
    ttft_ms: float
    accept_length: float | None
    repetitions: int


def curve(samples: Sequence[Sample], mode: Mode, context: str) -> list[Point]:
    """The curve of one mode, in order of level."""
    found: dict[int, list[Sample]] = {}
    for s in samples:
        if s.mode is mode and s.context == context:
            found.setdefault(s.level, []).append(s)
    return [_point(level, found[level]) for level in sorted(found)]


def _point(level: int, samples: Sequence[Sample]) -> Point:
    speeds = [s.tokens_per_s for s in samples]
    accepted = [s.accept_length for s in samples if s.accept_length is not None]
    return Point(
        level,
        fmean(speeds),
        min(speeds),
        max(speeds),
        fmean(s.tpot_ms for s in samples),
        fmean(s.itl_p99_ms for s in samples),
        fmean(s.ttft_ms for s in samples),
        fmean(accepted) if accepted else None,
        len(samples),
    )


def columns(samples: Sequence[Sample]) -> tuple[str, ...]:
    """The columns of `rows`; those of a plain server only where one was measured."""
    plain = ("plain tok/s", "off/plain") if any(s.mode is Mode.PLAIN for s in samples) else ()
    return (
        *("workload", "at once", "off tok/s", "on tok/s", "on/off", "dynamic tok/s", *plain),
        *("off ms/tok", "on ms/tok", "accepted"),
    )


def rows(samples: Sequence[Sample], contexts: Sequence[str]) -> list[tuple[str, ...]]:
    """The table of a sweep."""
    with_plain = "off/plain" in columns(samples)
    out: list[tuple[str, ...]] = []
    for context in contexts:
        curves = {mode: {p.level: p for p in curve(samples, mode, context)} for mode in Mode}
        for level in sorted(set(curves[Mode.OFF]) | set(curves[Mode.ON])):
            off, on, dynamic, plain = (
                curves[mode].get(level) for mode in (Mode.OFF, Mode.ON, Mode.DYNAMIC, Mode.PLAIN)
            )
            out.append(
                (
                    *(context, str(level), _speed(off), _speed(on), _ratio(on, off), _speed(dynamic)),
                    *((_speed(plain), _ratio(off, plain)) if with_plain else ()),
                    *(f"{p.tpot_ms:.2f}" if p else "-" for p in (off, on)),
                    f"{on.accept_length:.2f}" if on and on.accept_length else "-",
                )
            )
    return out


def _speed(point: Point | None) -> str:
    return f"{point.tokens_per_s:.1f}" if point else "-"


def _ratio(one: Point | None, other: Point | None) -> str:
    return f"{one.tokens_per_s / other.tokens_per_s:.2f}" if one and other else "-"
