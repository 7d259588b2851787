"""Putting changes into the lines of a base, and taking them out again. Exact: no offset, no fuzz."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from specctl.overlay.errors import Problem
from specctl.overlay.model import Change, FileEdit, split_lines


def splice(base: bytes, changes: Iterable[Change]) -> bytes | None:
    """The base with all changes in it, or None when a removed line is not there or changes overlap.

    Changes are in the base's own line numbers, so their order does not matter.
    """
    lines = split_lines(base)
    out: list[bytes] = []
    at = 0
    for change in sorted(changes, key=lambda c: (c.start, c.end)):
        if change.start < at or tuple(lines[change.start : change.end]) != change.removed:
            return None
        if change.start > len(lines):
            return None
        out += lines[at : change.start]
        out += change.added
        at = change.end
    out += lines[at:]
    return b"".join(out) if _whole(out) else None


def unsplice(edited: bytes, changes: Iterable[Change]) -> bytes | None:
    """The base again, or None when an added line is not exactly where the changes put it."""
    lines = split_lines(edited)
    out: list[bytes] = []
    at = shift = 0
    for change in sorted(changes, key=lambda c: (c.start, c.end)):
        start = change.start + shift
        end = start + len(change.added)
        if start < at or start > len(lines) or tuple(lines[start:end]) != change.added:
            return None
        out += lines[at:start]
        out += change.removed
        at = end
        shift += len(change.added) - len(change.removed)
    out += lines[at:]
    return b"".join(out) if _whole(out) else None


def _whole(lines: Sequence[bytes]) -> bool:
    """Only the last line of a file may lack its line end; elsewhere two lines would run together."""
    return all(line.endswith(b"\n") for line in lines[:-1])


def misfits(base: bytes, edit: FileEdit, overlay: str) -> list[Problem]:
    """Each hunk whose context or removed lines are not at its exact place, with what is there instead."""
    lines = split_lines(base)
    problems = []
    for index, hunk in enumerate(edit.hunks):
        there = tuple(lines[hunk.start : hunk.start + len(hunk.old)])
        if there != hunk.old:
            names = ", ".join(f.name for f in edit.functions if index in f.hunks)
            problems.append(
                Problem(
                    "the lines that the edit expects are not there",
                    path=edit.path,
                    overlays=(overlay,),
                    function=names or None,
                    lines=hunk.lines,
                    detail=line_diff(hunk.old, there),
                )
            )
    return problems


def line_diff(expected: Sequence[bytes], there: Sequence[bytes], limit: int = 12) -> str:
    """A short diff for people: `-` is what was expected, `+` what is there."""
    rows: list[str] = []
    matcher = SequenceMatcher(None, expected, there, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        rows += (f"- {_show(line)}" for line in expected[i1:i2])
        rows += (f"+ {_show(line)}" for line in there[j1:j2])
    if len(rows) > limit:
        rows = [*rows[:limit], f"... {len(rows) - limit} more lines"]
    return "\n".join(rows)


def _show(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    body = text.removesuffix("\n")
    ending = "" if text.endswith("\n") else "  (no line end)"
    return body.replace("\r", "\\r").replace("\x1b", "\\x1b") + ending


def overlaps(owned: Sequence[tuple[str, FileEdit]]) -> list[Problem]:
    """Each place where changes of two overlays overlap or touch, so that their order would matter."""
    everyone = [(name, change) for name, edit in owned for change in edit.changes]
    everyone.sort(key=lambda item: (item[1].start, item[1].end, item[0]))
    problems = []
    for index, (name, change) in enumerate(everyone):
        for other, later in everyone[index + 1 :]:
            if later.start > change.end:
                break
            if other == name:
                continue
            first, last = change.start + 1, max(change.end, later.end, change.start + 1)
            problems.append(
                Problem(
                    f"{name} and {other} edit the same lines",
                    path=owned[0][1].path,
                    overlays=(name, other),
                    lines=f"{first}-{last}",
                    detail="\n".join(
                        [f"{name}: {_describe(change)}", f"{other}: {_describe(later)}"],
                    ),
                )
            )
    return problems


def _describe(change: Change) -> str:
    where = (
        f"line {change.start + 1}" if len(change.removed) < 2 else f"lines {change.start + 1}-{change.end}"
    )
    if not change.removed:
        return f"adds {len(change.added)} before {where}"
    return f"{'replaces' if change.added else 'removes'} {where}"
