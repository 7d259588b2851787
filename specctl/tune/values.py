"""Threshold, resume and dwell: as a server has them, as a user asks for them, as a unit holds them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specctl.config.command import DISABLE_FLAG, RESUME_FLAG, RESUME_STEPS_FLAG
from specctl.errors import UsageError

FLAGS = (DISABLE_FLAG, RESUME_FLAG, RESUME_STEPS_FLAG)


@dataclass(frozen=True)
class Values:
    """Requests in the decode batch, and decode steps; None: not said, so the overlay's default."""

    threshold: int
    resume: int | None = None
    resume_steps: int | None = None

    def as_dict(self) -> dict[str, int | None]:
        return asdict(self)

    def __str__(self) -> str:
        parts = [f"threshold {self.threshold}"]
        if self.resume is not None:
            parts.append(f"resume {self.resume}")
        if self.resume_steps is not None:
            parts.append(f"dwell {self.resume_steps}")
        return ", ".join(parts)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Values | None:
        """From `dynamic_speculation` of /server_info; None when a number is missing."""
        numbers = [state.get(name) for name in ("threshold", "resume", "resume_steps")]
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
            return None
        return cls(*numbers)  # type: ignore[arg-type]

    def agrees(self, other: Values) -> bool:
        """Whether they are the same as far as both say something."""
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return all(a == b for a, b in pairs if a is not None and b is not None)


def check(values: Values, limit: int | None) -> None:
    """The rules of the overlay, said before anything is asked of a server.

    Args:
        limit: requests that the server runs at once; None when it is not known.

    Raises:
        UsageError: a value is out of its range.
    """
    n, m, k = values.threshold, values.resume, values.resume_steps

    def refuse(text: str, hint: str) -> UsageError:
        return UsageError(text, code="threshold-range", hint=hint)

    if n < 0:
        raise refuse(f"threshold {n} is below 0", "0 switches speculation off altogether")
    if m is not None and m > n:
        raise refuse(f"resume {m} is above the threshold {n}", f"give --resume {n} or less")
    if m is not None and m < min(1, n):
        raise refuse(f"resume {m} would never switch speculation on again", "give --resume 1 or more")
    if k is not None and k < 1:
        raise refuse(f"dwell {k} is below 1", "give --dwell 1 or more, in decode steps")
    if limit is not None and n >= limit:
        raise refuse(
            f"threshold {n} can never be exceeded: the server runs at most {limit} requests at once",
            f"give a threshold below {limit}; for a higher one raise --max-running-requests and deploy",
        )


def values_in(texts: Sequence[bytes]) -> Values | None:
    """The values in the launch command of unit files, whatever quotes stand around them; None: no flag."""
    found: list[int | None] = []
    for flag in FLAGS:
        pattern = re.compile(re.escape(flag).encode() + rb"[\"']?[= ][\"']?(\d+)")
        hits = [int(m.group(1)) for text in texts for m in pattern.finditer(text)]
        found.append(hits[-1] if hits else None)
    return Values(found[0], found[1], found[2]) if found[0] is not None else None


def argv_with(argv: Sequence[str], values: Values) -> tuple[str, ...]:
    """A launch command with these values in place of those it has; the order is that of a deploy."""
    out: list[str] = []
    at: int | None = None
    skip = False
    for word in argv:
        if skip:
            skip = False
            continue
        name, equals, _ = word.partition("=")
        if name in FLAGS:
            skip = not equals
            at = len(out) if at is None else at
            continue
        out.append(word)
    given = zip(FLAGS, asdict(values).values(), strict=True)
    words = [part for flag, value in given if value is not None for part in (flag, str(value))]
    at = len(out) if at is None else at
    return (*out[:at], *words, *out[at:])
