"""Ranges in names: `gpu-[01:04]` is gpu-01 to gpu-04, `[a:c]` three letters, `[0:8:2]` 0 2 4 6 8."""

from __future__ import annotations

import itertools
import re

MAX_NAMES = 4096

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


class RangeError(ValueError):
    """A range that means nothing; the text says why, `hint` what to write."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def has_range(text: str) -> bool:
    """Whether the text holds any bracket, and so must be read as a range."""
    return "[" in text or "]" in text


def expand(text: str) -> tuple[str, ...]:
    """The names that a text with any number of ranges stands for; the last range moves fastest.

    Both ends are part of the range. Leading zeros are kept: both ends then need the same width.

    Raises:
        RangeError: a bracket without its partner, an empty, reversed or mixed range, or too many names.
    """
    parts: list[tuple[str, ...]] = []
    count = 1
    end = 0
    for match in _BRACKETS.finditer(text):
        parts.append((_literal(text[end : match.start()]),))
        values = _values(match.group(1))
        count *= len(values)
        if count > MAX_NAMES:
            raise RangeError(f"more than {MAX_NAMES:,} names", "use a smaller range")
        parts.append(values)
        end = match.end()
    parts.append((_literal(text[end:]),))
    return tuple("".join(choice) for choice in itertools.product(*parts))


def _literal(text: str) -> str:
    if has_range(text):
        raise RangeError("a bracket has no partner", "write a range as [01:04]")
    return text


def _values(inside: str) -> tuple[str, ...]:
    bounds = inside.split(":")
    if len(bounds) not in (2, 3) or not all(bounds):
        raise RangeError(f"[{inside}] is not a range", "write [first:last] or [first:last:step]")
    first, last = bounds[0], bounds[1]
    step = _step(bounds[2]) if len(bounds) == 3 else 1
    if _is_number(first) and _is_number(last):
        return _numbers(inside, first, last, step)
    if all(len(b) == 1 and b.isascii() and b.isalpha() for b in (first, last)):
        if first.islower() != last.islower():
            raise RangeError(f"[{inside}] mixes small and capital letters", "use one case at both ends")
        _forwards(inside, ord(first), ord(last), (last, first))
        return tuple(chr(code) for code in range(ord(first), ord(last) + 1, step))
    raise RangeError(f"[{inside}] is not a range", "both ends are numbers, or both are single letters a to z")


def _numbers(inside: str, first: str, last: str, step: int) -> tuple[str, ...]:
    padded = any(len(b) > 1 and b.startswith("0") for b in (first, last))
    width = max(len(first), len(last)) if padded else 0
    if padded and len(first) != len(last):
        wide = f"[{first.zfill(width)}:{last.zfill(width)}]"
        raise RangeError(f"[{inside}] has ends of different width", f"with leading zeros write {wide}")
    low, high = int(first), int(last)
    _forwards(inside, low, high, (last, first))
    if (high - low) // step >= MAX_NAMES:
        raise RangeError(f"[{inside}] is more than {MAX_NAMES:,} names", "use a smaller range")
    return tuple(str(number).zfill(width) for number in range(low, high + 1, step))


def _forwards(inside: str, low: int, high: int, turned: tuple[str, str]) -> None:
    if low > high:
        raise RangeError(f"[{inside}] runs backwards", f"write [{turned[0]}:{turned[1]}]")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _step(text: str) -> int:
    if not _is_number(text) or int(text) == 0:
        raise RangeError(f"the step {text[:20]} is not a whole number above 0", "write e.g. [0:8:2]")
    return int(text)
