"""From a crossover to threshold, resume and dwell, with the sentence that says why. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from specctl.tune.crossover import CONFIDENCE, Crossover, Verdict
from specctl.tune.model import Mode, Sample
from specctl.tune.values import Values

DWELLS = (4, 32)  # decode steps; the overlay's default, and what is still a fraction of a second


@dataclass(frozen=True)
class Recommendation:
    """What to set, and why. `advice` goes beyond what a threshold can do, "" when there is nothing."""

    values: Values
    sentence: str
    advice: str = ""


def recommend(found: Crossover, limit: int, samples: Sequence[Sample]) -> Recommendation:
    """The proposal.

    Args:
        limit: requests that the server runs at once.
        samples: for the dwell: how long a finished request's place stays empty.
    """
    top = found.gains[-1].level
    dwell = dwell_of(samples, found.at or top)
    mean = math.exp(fmean(math.log(g.ratio) for g in found.gains))
    spread = f"{min(g.ratio for g in found.gains):.2f} to {max(g.ratio for g in found.gains):.2f}"
    if found.verdict is Verdict.NEVER:
        return Recommendation(
            Values(0, 0, dwell),
            f"speculation never pays on this host: {spread} of the speed without, at every measured level",
            "take the draft out of the arguments: a plain server is as fast and has more memory for requests",
        )
    if found.verdict is Verdict.ALWAYS:
        values = _never_off(limit, top, dwell)
        beyond = "" if top >= limit - 1 else f"; above {top} requests nothing was measured"
        return Recommendation(
            values,
            f"speculation pays at every measured level, {spread} of the speed without{beyond}",
            "a threshold is not needed: leave it out of the inventory"
            if not beyond
            else "measure more levels",
        )
    if found.at is None:  # unclear, and the fit lies wholly on one side
        none = all(abs(math.log(g.ratio)) < 0.01 for g in found.gains)
        side = _never_off(limit, top, dwell) if mean >= 1 else Values(0, 0, dwell)
        what = "makes no difference" if none else "may or may not pay"
        return Recommendation(
            side,
            f"the measurements do not tell: speculation {what}, {spread} of the speed without",
            "repeat with more repetitions (--repetitions)",
        )
    n = max(1, min(limit - 1, math.floor(found.at)))
    below = n - max(1, n // 8)  # the overlay's own distance, at least
    certain = math.floor(found.low) if found.low is not None else found.gains[0].level
    m = max(1, n // 2, min(below, certain)) if n > 1 else 1
    sentence = f"speculation pays up to {found.at:.1f} requests at once ({interval(found)})"
    if found.verdict is Verdict.UNCLEAR:
        return Recommendation(
            Values(n, m, dwell),
            f"{sentence}, but the interval reaches the edge of what was measured",
            "repeat with more levels or repetitions",
        )
    return Recommendation(Values(n, m, dwell), sentence)


def interval(found: Crossover) -> str:
    """The band in words."""
    low, high = ends(found)
    span = low if low == high else f"{low} to {high}"
    if not found.has_interval:
        return f"{span}; one repetition has no interval"
    return f"95 % interval {span}"


def ends(found: Crossover) -> tuple[str, str]:
    """Both ends of the band in words; they are the same where all of it lies beyond what was measured."""
    below, above = f"below {found.gains[0].level}", f"above {found.gains[-1].level}"
    tail = (1 + CONFIDENCE) / 2
    if found.share_never >= tail:
        return below, below
    if found.share_always >= tail:
        return above, above
    low = f"{found.low:.1f}" if found.low is not None else below
    high = f"{found.high:.1f}" if found.high is not None else above
    return low, high


def dwell_of(samples: Sequence[Sample], near: float) -> int:
    """Decode steps that a dip must last before speculation resumes.

    When a request ends, its place stays empty until the next one has been prefilled: about the time to a
    first token. A dip that short is no lower load, so it must not switch.
    """
    off = [s for s in samples if s.mode is Mode.OFF and s.tpot_ms > 0]
    if not off:
        return DWELLS[0]
    closest = min({s.level for s in off}, key=lambda level: abs(math.log(level / max(near, 1.0))))
    steps = median(s.ttft_ms / s.tpot_ms for s in off if s.level == closest)
    return max(DWELLS[0], min(DWELLS[1], math.ceil(steps)))


def _never_off(limit: int, top: int, dwell: int) -> Values:
    n = max(1, limit - 1 if top >= limit - 1 else top)
    return Values(n, max(1, n - max(1, n // 8)), dwell)
