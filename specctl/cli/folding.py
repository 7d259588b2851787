"""Many hosts in few words: names as ranges, and what is the same on several of them said once. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
FEW = 12  # hosts that are shown one by one; more are put together where they are alike

_NUMBERED = re.compile(r"(.*?)([0-9]+)([^0-9]*)\Z")


def folded(names: Sequence[str]) -> str:
    """`gpu-01, gpu-02, gpu-03, db` as `gpu-[01:03], db`, in the order of the first of each.

    The ranges are those of --hosts and of inventories, so that they can be given back.
    """
    parts: list[str] = []
    run: list[str] = []
    for name in names:
        if run and _follows(run[-1], name):
            run.append(name)
            continue
        parts.append(_range(run))
        run = [name]
    parts.append(_range(run))
    return ", ".join(part for part in parts if part)


def alike(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items with equal keys together; groups in the order of their first item."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def span(values: Sequence[float]) -> str:
    """`61.3`, or `59.0 to 61.3` where they differ."""
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


def _follows(before: str, name: str) -> bool:
    old, new = _NUMBERED.match(before), _NUMBERED.match(name)
    if old is None or new is None or (old[1], old[3], len(old[2])) != (new[1], new[3], len(new[2])):
        return False
    return int(new[2]) == int(old[2]) + 1


def _range(run: Sequence[str]) -> str:
    if len(run) < 3:
        return ", ".join(run)
    first, last = _NUMBERED.match(run[0]), _NUMBERED.match(run[-1])
    if first is None or last is None:
        return ", ".join(run)
    return f"{first[1]}[{first[2]}:{last[2]}]{first[3]}"
