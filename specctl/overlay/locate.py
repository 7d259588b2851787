"""Where a hunk would go in bytes that are not its base, and what stands in its way. Exact lines only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches

from specctl.overlay.functions import MODULE, SourceMap
from specctl.overlay.model import FileEdit, FunctionPin, Hunk
from specctl.overlay.splice import line_diff


@dataclass(frozen=True)
class Verdict:
    """What became of one pinned function.

    Attributes:
        same: its source is the pinned one.
        fits: the edit could be pinned again without thinking it over.
        movable: each of its hunks has exactly one place left, so that this can be done by machine.
    """

    function: str
    same: bool
    fits: bool
    movable: bool
    message: str
    detail: str = ""


def places(source: SourceMap, block: Sequence[bytes], hunk: Hunk, names: Sequence[str]) -> list[int]:
    """0-based lines at which `block` stands with its changed part inside one of the functions `names`.

    Args:
        block: `hunk.old` or `hunk.new`.
    """
    size = len(block)
    lines = source.lines
    if not size:
        return [0] if not lines else []
    found = []
    for at in range(len(lines) - size + 1):
        if lines[at] == block[0] and tuple(lines[at : at + size]) == tuple(block):
            inside = {source.innermost(at + i) for i in _touched(hunk, block)}
            if any(MODULE in names or _within(name, names) for name in inside):
                found.append(at)
    return found


def _touched(hunk: Hunk, block: Sequence[bytes]) -> list[int]:
    """Offsets in the block of changed lines and, at an insertion, of the lines at both sides."""
    out: set[int] = set()
    shift = 0
    for change in hunk.changes:
        at = change.start - hunk.start
        size = len(change.removed)
        if block is hunk.new:
            at, size = at + shift, len(change.added)
            shift += len(change.added) - len(change.removed)
        out |= set(range(at, at + size)) if size else {at - 1, at}
    return sorted(i for i in out if 0 <= i < len(block))


def _within(name: str, names: Sequence[str]) -> bool:
    return any(name == n or name.startswith(f"{n}.") for n in names)


def without(data: bytes, edits: Sequence[FileEdit]) -> bytes:
    """The bytes with each hunk that stands in them exactly once taken out: what is left beside our edits."""
    for edit in edits:
        for index, hunk in enumerate(edit.hunks):
            source = SourceMap(data)
            found = places(source, hunk.new, hunk, hunk_functions(edit, index))
            if len(found) == 1:
                at = found[0]
                lines = [*source.lines[:at], *hunk.old, *source.lines[at + len(hunk.new) :]]
                data = b"".join(lines)
    return data


def hunk_functions(edit: FileEdit, index: int) -> list[str]:
    return [pin.name for pin in edit.functions if index in pin.hunks]


def judge_function(source: SourceMap, edit: FileEdit, pin: FunctionPin) -> Verdict:
    """Compare a pinned function with the one of the same name in other bytes."""
    if pin.name not in source:
        return Verdict(pin.name, False, False, False, "the function is gone", _elsewhere(source, pin.name))
    same = source.fingerprint(pin.name) == pin.sha256
    details = []
    several = False
    for index in pin.hunks:
        hunk = edit.hunks[index]
        found = places(source, hunk.old, hunk, hunk_functions(edit, index))
        if len(found) > 1:
            several = True
            details.append("the edit's lines stand at " + ", ".join(str(at + 1) for at in found))
        elif not found:
            details.append(line_diff(*_nearest(source, hunk.old, pin.name)))
    detail = "\n".join(details)
    what = _noun(source, pin.name)
    if same and not details:
        return Verdict(pin.name, True, True, True, f"{what} is as pinned; the file changed elsewhere")
    if same:
        return Verdict(pin.name, True, True, False, f"{what} is as pinned; lines beside it changed", detail)
    if not details:
        text = f"{what} changed, but not where the edit goes: read it before pinning"
        return Verdict(pin.name, False, True, True, text)
    text = f"{what} changed where the edit goes"
    if several:
        text = f"{what} changed, and the edit fits more than one place in it"
    return Verdict(pin.name, False, False, False, text, detail)


def _noun(source: SourceMap, name: str) -> str:
    if name == MODULE:
        return "the module level"
    return "the class" if source.span(name).is_class else "the function"


def _nearest(source: SourceMap, block: Sequence[bytes], name: str) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """The block, and the lines of the function that are most like it, from the first to the last match."""
    span = source.span(name)
    margin = len(block)
    lines = source.lines[max(span.start - margin, 0) : span.end + margin]
    wanted = Counter(line for line in block if line.strip())
    scores = [
        (sum((wanted & Counter(lines[at : at + margin])).values()), -at)
        for at in range(max(len(lines) - margin + 1, 1))
    ]
    score, best = max(scores)
    if not score:
        return block, ()
    around = lines[max(-best - margin, 0) : -best + 2 * margin]
    matches = [
        m
        for m in SequenceMatcher(None, block, around, autojunk=False).get_matching_blocks()
        if any(line.strip() for line in block[m.a : m.a + m.size])
    ]
    first, last = matches[0], matches[-1]
    start = max(first.b - first.a, 0)
    end = last.b + last.size + (len(block) - last.a - last.size)
    return block, around[start:end]


def _elsewhere(source: SourceMap, name: str) -> str:
    last = name.rpartition(".")[2]
    same = [n for n in source.names() if n.rpartition(".")[2] == last]
    near = same or get_close_matches(name, source.names(), 2, 0.75)
    return f"perhaps it is now {' or '.join(near[:2])}" if near else "nothing of a like name is in the file"
