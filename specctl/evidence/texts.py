"""How the greedy texts of a burst are compared with those of the same prompts run alone. Pure.

Alone, speculation is on; in the burst it is off. On a CPU, or with float32, the two texts of a prompt must be
identical. On a GPU in half precision they need not be: a batch of another size adds numbers up in another
order, and the plain server too answers differently then. There the share of a text before its first
difference is averaged over the burst, and must be at least `PREFIX_LIMIT`. A wrong KV cache or position
breaks nearly every text near its beginning and falls far below that; rounding moves a few texts, from some
token on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

PREFIX_LIMIT = 0.9


@dataclass(frozen=True)
class Comparison:
    """The result, in numbers and in words."""

    good: bool
    identical: int
    of: int
    prefix: float  # mean share of the text before the first difference, 0 to 1
    exact: bool  # whether identity was required
    first_difference: str = ""

    @property
    def words(self) -> str:
        said = f"{self.identical} of {self.of} texts identical"
        if not self.exact:
            said += (
                f", {self.prefix:.1%} of the text before the first difference (at least {PREFIX_LIMIT:.0%})"
            )
        return said


def compare(
    info: Mapping[str, Any],
    alone: Sequence[str | None],
    burst: Sequence[str | None],
    which: Sequence[int] = (),
) -> Comparison:
    """Compare each text of the burst with that of its prompt alone.

    Args:
        info: device and dtype as /server_info says them; what is not said counts as a GPU in half precision.
        alone: at least one text.
        burst: at least one text.
        which: the prompt of each request of the burst; empty: request i used prompt i modulo their number.
    """
    numbers = which if len(which) == len(burst) else range(len(burst))
    pairs = [(alone[n % len(alone)] or "", text or "") for n, text in zip(numbers, burst, strict=True)]
    shares = [prefix_share(a, b) for a, b in pairs]
    identical, mean = sum(a == b for a, b in pairs), fmean(shares)
    exact = info.get("device") == "cpu" or info.get("dtype") in ("float32", "float")
    good = identical == len(pairs) if exact else mean >= PREFIX_LIMIT
    return Comparison(good, identical, len(pairs), mean, exact, first_difference(pairs))


def prefix_share(a: str, b: str) -> float:
    """Characters before the first difference, as a share of the longer text; 1.0 for equal texts."""
    longest = max(len(a), len(b))
    return split_at(a, b) / longest if longest else 1.0


def split_at(a: str, b: str) -> int:
    """Where two texts part."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)


def first_difference(pairs: Sequence[tuple[str, str]]) -> str:
    """The surroundings of the first place where a pair parts; "" when none does."""
    for a, b in pairs:
        if a != b:
            at = split_at(a, b)
            around = slice(max(0, at - 20), at + 20)
            return f"at character {at}: alone {a[around]!r}, in the burst {b[around]!r}"
    return ""
