"""Comparing the sglang/ of two folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specctl.overlay.errors import TreeError
from specctl.overlay.record import PACKAGE

_LEFTOVERS = (".pyc", ".orig", ".rej", ".swp")


@dataclass(frozen=True)
class TreeDiff:
    """changed: path -> (base, edited) bytes. new: path -> bytes. gone: paths that only the base has."""

    changed: dict[str, tuple[bytes, bytes]]
    new: dict[str, bytes]
    gone: list[str]


def diff_trees(base: Path, edited: Path) -> TreeDiff:
    """Compare all files below sglang/ by their bytes; compiled files and leftovers of editors do not count.

    Raises:
        TreeError: a folder contains no sglang/.
    """
    old, new = _files(base), _files(edited)
    changed = {}
    for path in sorted(old.keys() & new.keys()):
        if not old[path].samefile(new[path]):
            pair = old[path].read_bytes(), new[path].read_bytes()
            if pair[0] != pair[1]:
                changed[path] = pair
    added = {path: new[path].read_bytes() for path in sorted(new.keys() - old.keys())}
    return TreeDiff(changed, added, sorted(old.keys() - new.keys()))


def _files(tree: Path) -> dict[str, Path]:
    if not (tree / PACKAGE).is_dir():
        raise TreeError(
            f"{tree} contains no {PACKAGE}/", hint="give the folder above sglang/, an unpacked wheel"
        )
    return {
        path.relative_to(tree).as_posix(): path
        for path in (tree / PACKAGE).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in _LEFTOVERS
    }
