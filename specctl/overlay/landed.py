"""Did upstream take the change? The manifest's rules say so, its release, or our lines being there."""

from __future__ import annotations

from collections.abc import Callable

from packaging.version import InvalidVersion, Version

from specctl.overlay.compose import public
from specctl.overlay.functions import MODULE, SourceMap
from specctl.overlay.locate import hunk_functions
from specctl.overlay.model import FileEdit, Hunk, Upstream

_WORDS = 8  # characters of an added line that say more than `else:` or `pass`


def landed_by_manifest(upstream: Upstream, version: str | None, read: Callable[[str], bytes | None]) -> str:
    """Why the manifest's own rules say that the change landed; empty when they do not."""
    rules = [r for r in upstream.landed if r.base is None or (version and public(version) == r.base)]
    if rules:
        if all(rule.contains.encode() in (read(rule.path) or b"") for rule in rules):
            return "upstream has it: " + ", ".join(f"{r.path} contains {r.contains!r}" for r in rules)
        return ""
    if upstream.landed_in and version:
        try:
            if Version(version) >= Version(upstream.landed_in):
                return f"the manifest says that {upstream.landed_in} and later have it"
        except InvalidVersion:
            return ""
    return ""


def is_telling(base: SourceMap, edit: FileEdit) -> bool:
    """Whether added lines that stand in a later release show that it has the change.

    They do not when the base holds the like already, or when a hunk adds nothing but lines such as `else:`.
    """
    for index, hunk in enumerate(edit.hunks):
        words = any(len(line.strip()) >= _WORDS for change in hunk.changes for line in change.added)
        if not words or _has(base, hunk, hunk_functions(edit, index)):
            return False
    return True


def landed_by_lines(source: SourceMap, edit: FileEdit) -> bool:
    """True when every hunk's added lines stand in its functions, in order, and its removed lines are gone."""
    return edit.telling and all(_has(source, h, hunk_functions(edit, i)) for i, h in enumerate(edit.hunks))


def _has(source: SourceMap, hunk: Hunk, names: list[str]) -> bool:
    lines: list[bytes] = []
    for name in names:
        if name not in source:
            return False
        span = source.span(name)
        lines += source.lines[span.start : span.end] if name != MODULE else source.lines
    added = [line for change in hunk.changes for line in change.added if line.strip()]
    # A line that the hunk's own new side still holds proves nothing by being there.
    removed = {line for change in hunk.changes for line in change.removed if line.strip()} - set(hunk.new)
    if not added and not removed:
        return False
    rest = iter(lines)
    return all(any(line == there for there in rest) for line in added) and not removed & set(lines)
