"""Unified diffs as bytes: strict reading, and writing.

Text passes through Latin-1, which maps each byte to one character and back, so bytes that are no UTF-8 and
CR LF line ends survive.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from specctl.overlay.model import Change, Hunk, split_lines

CONTEXT = 3
_NO_NEWLINE = "\\ No newline at end of file\n"


class PatchFormatError(ValueError):
    """The text is not one complete unified diff of one file."""


def parse_patch(data: bytes) -> tuple[str, tuple[Hunk, ...]]:
    """Read a diff of exactly one file.

    Returns:
        The path it edits (`a/` and `b/` taken off) and its hunks in order.

    Raises:
        PatchFormatError: a hunk is shorter or longer than its header says, lines belong to no hunk, hunks
            overlap or run backwards, a hunk changes nothing, or the diff names several, new or deleted files.
    """
    lines = [line.decode("latin-1") for line in split_lines(data)]
    if lines and not lines[-1].endswith("\n"):
        raise PatchFormatError("the last line has no line end: the diff was cut off")
    try:
        files = PatchSet(lines)
    except UnidiffParseError as exc:
        raise PatchFormatError(str(exc).strip()) from exc
    if len(files) != 1:
        raise PatchFormatError(f"it must edit exactly one file, and it names {len(files)}")
    file = files[0]
    path = file.source_file.removeprefix("a/")
    if path != file.target_file.removeprefix("b/") or "/dev/null" in (file.source_file, file.target_file):
        raise PatchFormatError("it must edit one existing file: modules of ours belong into files/")
    first = next(i for i, line in enumerate(lines) if line.startswith("--- "))
    held = 2 + sum(1 + len(hunk) for hunk in file)
    if first + held != len(lines):
        raise PatchFormatError(
            f"{len(lines) - first - held} lines belong to no hunk: a hunk is longer than its header says"
        )
    hunks = tuple(_hunk(hunk) for hunk in file)
    if not hunks:
        raise PatchFormatError("it has no hunks")
    shift = 0
    previous_end = 0
    for parsed, raw in zip(hunks, file, strict=True):
        name = f"hunk @@ -{raw.source_start},{raw.source_length} @@"
        if not parsed.changes:
            raise PatchFormatError(f"{name} changes nothing")
        if parsed.start < previous_end:
            raise PatchFormatError(f"{name} overlaps the hunk before it, or stands before it")
        target = raw.target_start - (1 if raw.target_length else 0)
        if target != parsed.start + shift:
            raise PatchFormatError(
                f"{name}: its new line number {raw.target_start} does not follow from the hunks"
            )
        shift += len(parsed.new) - len(parsed.old)
        previous_end = parsed.start + len(parsed.old)
    return path, hunks


def _hunk(raw: object) -> Hunk:
    old: list[bytes] = []
    new: list[bytes] = []
    changes: list[Change] = []
    start = raw.source_start - (1 if raw.source_length else 0)  # type: ignore[attr-defined]
    removed: list[bytes] = []
    added: list[bytes] = []
    rows = list(raw)  # type: ignore[call-overload]

    def flush() -> None:
        if removed or added:
            changes.append(Change(start + len(old) - len(removed), tuple(removed), tuple(added)))
            removed.clear()
            added.clear()

    for index, row in enumerate(rows):
        if row.line_type == "\\":
            continue
        value = row.value
        if index + 1 < len(rows) and rows[index + 1].line_type == "\\":
            value = value.removesuffix("\n")
        line = value.encode("latin-1")
        if row.line_type == " ":
            flush()
            old.append(line)
            new.append(line)
        elif row.line_type == "-":
            old.append(line)
            removed.append(line)
        elif row.line_type == "+":
            new.append(line)
            added.append(line)
        else:
            raise PatchFormatError("a blank line follows a hunk: the hunk is longer than its header says")
    flush()
    if not all(line.endswith(b"\n") for side in (old, new) for line in side[:-1]):
        raise PatchFormatError("a line in the middle of a hunk has no line end")
    return Hunk(start=start, old=tuple(old), new=tuple(new), changes=tuple(changes))


def changes_between(base: bytes, edited: bytes) -> tuple[Change, ...]:
    """The smallest runs of lines in which two contents differ; empty when they are equal."""
    a, b = split_lines(base), split_lines(edited)
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    matcher = SequenceMatcher(None, a[head : len(a) - tail], b[head : len(b) - tail], autojunk=False)
    return tuple(
        Change(head + i1, tuple(a[head + i1 : head + i2]), tuple(b[head + j1 : head + j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )


def group_changes(base: bytes, changes: Sequence[Change], context: int = CONTEXT) -> tuple[Hunk, ...]:
    """Hunks for `changes` (in order, apart from each other); changes with shared context share a hunk."""
    lines = split_lines(base)
    groups: list[list[Change]] = []
    for change in changes:
        if groups and change.start - groups[-1][-1].end <= 2 * context:
            groups[-1].append(change)
        else:
            groups.append([change])
    hunks = []
    for group in groups:
        start = max(group[0].start - context, 0)
        end = min(group[-1].end + context, len(lines))
        new: list[bytes] = []
        at = start
        for change in group:
            new += [*lines[at : change.start], *change.added]
            at = change.end
        new += lines[at:end]
        hunks.append(Hunk(start, tuple(lines[start:end]), tuple(new), tuple(group)))
    return tuple(hunks)


def format_patch(path: str, hunks: Sequence[Hunk], sections: Sequence[str] | None = None) -> bytes:
    """A unified diff of one file; `sections` is the text behind each hunk's second `@@`."""
    out = [f"--- a/{path}\n", f"+++ b/{path}\n"]
    shift = 0
    for index, hunk in enumerate(hunks):
        section = f" {sections[index]}" if sections and sections[index] else ""
        old_at = hunk.start + (1 if hunk.old else 0)
        new_at = hunk.start + shift + (1 if hunk.new else 0)
        out.append(f"@@ -{old_at},{len(hunk.old)} +{new_at},{len(hunk.new)} @@{section}\n")
        at = 0
        for change in hunk.changes:
            upto = change.start - hunk.start
            out += (_row(" ", line) for line in hunk.old[at:upto])
            out += (_row("-", line) for line in change.removed)
            out += (_row("+", line) for line in change.added)
            at = upto + len(change.removed)
        out += (_row(" ", line) for line in hunk.old[at:])
        shift += len(hunk.new) - len(hunk.old)
    return "".join(out).encode("latin-1")


def _row(sign: str, line: bytes) -> str:
    text = sign + line.decode("latin-1")
    return text if text.endswith("\n") else f"{text}\n{_NO_NEWLINE}"
