"""Accepted length, compared so that a small loss shows.

A speculative step at the same position of the same text, on a draft in the same state, accepts the same
number of tokens. So two runs are compared step by step, where both have a step that starts at the same
position of the same stream; what differs there is the draft's state, and in a step of a hundred the draft's
choice between two tokens that are as good, which rounding decides: other batches, other rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Step = dict[str, Any]
Place = tuple[str, int]  # stream, tokens with KV before the step


@dataclass(frozen=True)
class Comparison:
    """Over the `matched` steps: tokens gained by this run and by the other one.

    `noise` is one standard deviation of the difference, were every single difference a toss of a coin.
    """

    matched: int
    gained: int
    gained_by_other: int
    noise: float = 0.0

    @property
    def ratio(self) -> float:
        """Accepted length of this run over the other one's; NaN-free: 0.0 when nothing matched."""
        return self.gained / self.gained_by_other if self.gained_by_other else 0.0

    def at_least(self, share: float) -> bool:
        """Whether the ratio is `share` or more, as far as can be told over the noise."""
        return self.gained + 2 * self.noise >= share * self.gained_by_other


def on_steps(steps: Iterable[Step], prefix: str = "stream-") -> dict[Place, tuple[int, int | None]]:
    """Place -> (tokens gained, on-steps since the last off step; None before the first)."""
    out: dict[Place, tuple[int, int | None]] = {}
    since: int | None = None
    for step in steps:
        if not step["on"]:
            since = 0
            continue
        for rid, before, gained in step["rows"]:
            if rid.startswith(prefix):
                out[rid, before] = (gained, since)
        since = None if since is None else since + 1
    return out


def compare(
    steps: Iterable[Step], other: Iterable[Step], since: range | None = None, prefix: str = "stream-"
) -> Comparison:
    """`since`: only this run's steps with so many on-steps since the last off step; None: all after one."""
    mine, theirs = on_steps(steps, prefix), on_steps(other, prefix)
    places = [
        place
        for place, (_, age) in mine.items()
        if place in theirs and age is not None and (since is None or age in since)
    ]
    return Comparison(
        matched=len(places),
        gained=sum(mine[place][0] for place in places),
        gained_by_other=sum(theirs[place][0] for place in places),
        noise=math.sqrt(sum((mine[place][0] - theirs[place][0]) ** 2 for place in places)),
    )


def mean_by_age(steps: Iterable[Step], most: int = 8) -> dict[int, float]:
    """Mean accepted length by on-steps since the last off step; the last bucket holds all later ones."""
    buckets: dict[int, list[int]] = {}
    for gained, age in on_steps(steps).values():
        if age is not None:
            buckets.setdefault(min(age, most), []).append(gained)
    return {age: sum(values) / len(values) for age, values in sorted(buckets.items())}
