"""What differs between two contents of a file, by function."""

from __future__ import annotations

from specctl.overlay.functions import SourceMap, functions_of
from specctl.overlay.patch import changes_between
from specctl.overlay.splice import line_diff


def what_differs(expected: bytes, there: bytes) -> list[tuple[str | None, str]]:
    """Function of `expected` (innermost) and a short diff of the lines that differ in it, in file order."""
    before, after = SourceMap(expected), SourceMap(there)
    removed: dict[str, list[bytes]] = {}
    added: dict[str, list[bytes]] = {}
    shift = 0
    for change in changes_between(expected, there):
        name = functions_of(change, before, after, change.start + shift)[0]
        removed.setdefault(name, []).extend(change.removed)
        added.setdefault(name, []).extend(change.added)
        shift += len(change.added) - len(change.removed)
    return [(name, line_diff(removed[name], added[name])) for name in removed]
