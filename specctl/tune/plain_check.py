"""Whether "off" is as fast as a server that was started without speculation. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from specctl.tune.model import Mode, Sample

PLAIN_LIMIT = 0.02  # by how much off may be slower or faster


@dataclass(frozen=True)
class PlainCheck:
    """Off against a true plain server, each pair of runs with the same prompts.

    `ratio` is None where that was not measured; `why` then says why not.
    """

    ratio: float | None = None  # off / plain, geometric mean over all pairs
    error: float | None = None  # 95 % of it lies within ratio +- this; None: one pair has no scatter
    levels: tuple[tuple[str, int, float], ...] = ()  # workload, level, off / plain
    why: str = ""

    @property
    def verdict(self) -> str:
        """not checked, within, not within, or undecided: the scatter is larger than what is looked for."""
        if self.ratio is None:
            return "not checked"
        away, limit = abs(math.log(self.ratio)), math.log(1 + PLAIN_LIMIT)
        if self.error is None:
            return "undecided"
        if away <= limit and self.error <= PLAIN_LIMIT:
            return "within"
        return "not within" if away - self.error > limit else "undecided"

    @property
    def sentence(self) -> str:
        """The finding, for people."""
        limit = f"{PLAIN_LIMIT:.0%}"
        if self.ratio is None:
            return f"off against a plain server: NOT CHECKED, {self.why or 'no plain server was started'}"
        spread = "one pair of runs" if self.error is None else f"+- {self.error:.1%}"
        said = f"off runs at {self.ratio:.1%} ({spread}) of a server started without speculation"
        return {
            "within": f"{said}: within {limit}",
            "not within": f"{said}: NOT within {limit}, so these curves flatter or blame the switch",
            "undecided": f"{said}: the runs do not tell whether that is within {limit}",
        }[self.verdict]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**asdict(self), "verdict": self.verdict, "limit": PLAIN_LIMIT, "sentence": self.sentence}


def check_plain(samples: Sequence[Sample], why_not: str = "") -> PlainCheck:
    """Compare off with plain wherever both were measured; `why_not`: said when they were not."""

    def speeds(mode: Mode) -> dict[tuple[str, int, int], float]:
        keyed = {(s.context, s.level, s.repetition): s.tokens_per_s for s in samples if s.mode is mode}
        return {key: math.log(speed) for key, speed in keyed.items() if speed > 0}

    off, plain = speeds(Mode.OFF), speeds(Mode.PLAIN)
    pairs = {key: off[key] - plain[key] for key in plain if key in off}
    if not pairs:
        return PlainCheck(why=why_not)
    logs = list(pairs.values())
    error = 1.96 * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None
    by_level: dict[tuple[str, int], list[float]] = {}
    for (context, level, _), value in pairs.items():
        by_level.setdefault((context, level), []).append(value)
    levels = tuple((c, level, math.exp(fmean(values))) for (c, level), values in by_level.items())
    return PlainCheck(math.exp(fmean(logs)), error, levels)
