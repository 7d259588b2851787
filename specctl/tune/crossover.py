"""Where speculation stops to pay, with its uncertainty. Pure; randomness comes from a seed.

At each level the natural logarithm of throughput with over throughput without speculation is averaged over
repetitions. The more requests run, the less speculation pays, so the averages are fitted by the nearest curve
that never rises (isotonic regression). Where that curve passes zero, interpolated over the logarithm of the
level, is the crossover. That is also the cut at which the sum of all gains is largest, so a dip or a bump
that a single threshold cannot follow moves it no further than it is worth.

The interval comes from a bootstrap: the scatter of repetitions around their averages, pooled over all levels
(three repetitions say too little about one level), is drawn again and the whole fit repeated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

from specctl.tune.model import Pair

DRAWS = 2000
CONFIDENCE = 0.95
CLEAR = 3.0  # standard errors; the cut was chosen to make them large, so two would not do
NO_DIFFERENCE = 0.01  # a gain or loss below 1 % is none


class Verdict(str, Enum):
    CROSSES = "crosses"
    NEVER = "never"  # speculation pays at no measured level
    ALWAYS = "always"  # it pays at every measured level
    UNCLEAR = "unclear"  # the measurements do not tell


@dataclass(frozen=True)
class Gain:
    """Speculation against none at one level."""

    level: int
    ratio: float  # geometric mean over repetitions; above 1 speculation is faster
    fitted: float  # of the curve that never rises
    repetitions: int


@dataclass(frozen=True)
class Crossover:
    """`at` is None where the curve does not pass 1 within what was measured.

    `low` and `high` bound the crossover with 95 % confidence; None means beyond the measured levels on that
    side. `share_never` and `share_always` say how many draws of the bootstrap found no crossover, 0 to 1.
    `against` are levels on the wrong side of it in every repetition: a single threshold cannot follow them.
    """

    verdict: Verdict
    at: float | None
    low: float | None
    high: float | None
    share_never: float
    share_always: float
    gains: tuple[Gain, ...]
    against: tuple[int, ...] = ()
    has_interval: bool = True  # False: one repetition, so `low` and `high` are just the neighbouring levels


def find_crossover(pairs: Sequence[Pair], *, seed: int = 0) -> Crossover:
    """The crossover of some pairs.

    Raises:
        ValueError: fewer than two levels were measured.
    """
    by_level: dict[int, list[float]] = {}
    for pair in pairs:
        by_level.setdefault(pair.level, []).append(math.log(pair.on / pair.off))
    levels = sorted(by_level)
    if len(levels) < 2:
        raise ValueError("a crossover needs at least two levels")
    counts = [len(by_level[level]) for level in levels]
    means = [fmean(by_level[level]) for level in levels]
    fitted = falling(means, counts)
    at = crossing(levels, fitted)
    residuals = _residuals(list(by_level.values()))
    draws = _draws(levels, means, counts, residuals, seed)
    low, high, never, always = _interval(draws, levels, fitted, has=bool(residuals))
    gains = tuple(
        Gain(level, math.exp(mean), math.exp(fit), count)
        for level, mean, fit, count in zip(levels, means, fitted, counts, strict=True)
    )
    inside = levels[0] <= at <= levels[-1]
    verdict = _verdict(at, never, always, levels, list(by_level.values()))
    return Crossover(
        verdict,
        at if inside else None,
        low,
        high,
        never,
        always,
        gains,
        _against(levels, list(by_level.values()), at),
        bool(residuals),
    )


def falling(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest sequence (least squares) that never rises: neighbours that rise are averaged."""
    blocks: list[tuple[float, float, int]] = []  # value, weight, how many
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, wa, na), (b, wb, nb) = blocks[-2], blocks[-1]
            blocks[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    return [value for value, _, count in blocks for _ in range(count)]


def crossing(levels: Sequence[int], fitted: Sequence[float]) -> float:
    """Where a falling curve passes zero; minus or plus infinity where that is below or above all levels."""
    if fitted[0] <= 0:
        return -math.inf
    if fitted[-1] > 0:
        return math.inf
    after = next(i for i, value in enumerate(fitted) if value <= 0)
    (x1, y1), (x2, y2) = ((math.log(levels[i]), fitted[i]) for i in (after - 1, after))
    return math.exp(x1 + (x2 - x1) * y1 / (y1 - y2))


def _residuals(groups: Sequence[Sequence[float]]) -> list[float]:
    """Scatter around the averages, stretched to what it would be around the true ones."""
    found = []
    for values in groups:
        n = len(values)
        if n > 1:
            mean = fmean(values)
            found += [(v - mean) * math.sqrt(n / (n - 1)) for v in values]
    return found


def _draws(
    levels: Sequence[int],
    means: Sequence[float],
    counts: Sequence[int],
    residuals: Sequence[float],
    seed: int,
) -> list[float]:
    if not residuals:
        return []
    rng = random.Random(seed)
    found = []
    for _ in range(DRAWS):
        drawn = [
            mean + fmean(rng.choices(residuals, k=count)) for mean, count in zip(means, counts, strict=True)
        ]
        found.append(crossing(levels, falling(drawn, counts)))
    return sorted(found)


def _interval(
    draws: Sequence[float], levels: Sequence[int], fitted: Sequence[float], *, has: bool
) -> tuple[float | None, float | None, float, float]:
    """low, high, share below all levels, share above all levels."""
    if not has:
        at = crossing(levels, fitted)
        below = [level for level, f in zip(levels, fitted, strict=True) if f > 0]
        above = [level for level, f in zip(levels, fitted, strict=True) if f <= 0]
        return (
            float(below[-1]) if below else None,
            float(above[0]) if above else None,
            float(at == -math.inf),
            float(at == math.inf),
        )
    tail = (1 - CONFIDENCE) / 2
    low, high = draws[int(tail * len(draws))], draws[min(len(draws) - 1, int((1 - tail) * len(draws)))]
    never = sum(d == -math.inf for d in draws) / len(draws)
    always = sum(d == math.inf for d in draws) / len(draws)
    return (low if math.isfinite(low) else None, high if math.isfinite(high) else None, never, always)


def _verdict(
    at: float, never: float, always: float, levels: Sequence[int], groups: Sequence[Sequence[float]]
) -> Verdict:
    """A finding needs the bootstrap's word, and gains and losses well out of the noise on their sides."""
    if all(abs(fmean(values)) < NO_DIFFERENCE for values in groups):
        return Verdict.UNCLEAR
    spread = _residuals(groups)
    sd = math.sqrt(fmean([r * r for r in spread])) if spread else 0.0
    before = [v for level, values in zip(levels, groups, strict=True) if level <= at for v in values]
    after = [v for level, values in zip(levels, groups, strict=True) if level > at for v in values]
    gain = not before or fmean(before) > CLEAR * sd / math.sqrt(len(before))
    loss = not after or -fmean(after) > CLEAR * sd / math.sqrt(len(after))
    doubt = 1 - CONFIDENCE
    certain = {-math.inf: never >= CONFIDENCE, math.inf: always >= CONFIDENCE}
    if not (gain and loss and certain.get(at, never + always <= doubt)):
        return Verdict.UNCLEAR
    if math.isinf(at):
        return Verdict.NEVER if at < 0 else Verdict.ALWAYS
    return Verdict.CROSSES


def _against(levels: Sequence[int], groups: Sequence[Sequence[float]], at: float) -> tuple[int, ...]:
    """Levels that are on the wrong side in every repetition, by more than noise."""
    found = []
    for level, values in zip(levels, groups, strict=True):
        sign = 1 if level <= at else -1
        if all(sign * v < -NO_DIFFERENCE for v in values):
            found.append(level)
    return tuple(found)
