"""From trees or diffs to the edits of one overlay on one base. Reads only; `pin` writes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from specctl.overlay.compose import Composition, compose
from specctl.overlay.errors import Problem
from specctl.overlay.functions import MODULE, SourceMap, functions_of
from specctl.overlay.landed import is_telling
from specctl.overlay.locate import hunk_functions, places
from specctl.overlay.model import BasePins, Change, FileEdit, FunctionPin, Overlay, sha256
from specctl.overlay.patch import (
    PatchFormatError,
    changes_between,
    format_patch,
    group_changes,
    parse_patch,
)
from specctl.overlay.pins import module_files
from specctl.overlay.splice import misfits, splice
from specctl.overlay.trees import diff_trees


@dataclass
class Draft:
    """Edits on their way to be pinned, and every reason why they cannot be.

    Attributes:
        edits: path -> edit.
        patches: path of a diff in the overlay's folder -> its bytes.
        copies: path below site-packages -> bytes, new modules to copy into files/.
    """

    base: str
    edits: dict[str, FileEdit] = field(default_factory=dict)
    patches: dict[str, bytes] = field(default_factory=dict)
    copies: dict[str, bytes] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, path: str, base: bytes, changes: Sequence[Change]) -> None:
        """Take in the changes of one file."""
        name = f"edits/{self.base}/{path.replace('/', '.')}.patch"
        edited = splice(base, changes)
        if path in self.edits:
            self.problems.append(Problem("two diffs edit this file: write one", path))
        elif edited is None:
            self.problems.append(Problem("the changes do not fit the base", path))
        elif path.endswith(".py") and _syntax_error(edited) and not _syntax_error(base):
            self.problems.append(Problem(f"the edited file is no Python: {_syntax_error(edited)}", path))
        else:
            self.edits[path], self.patches[name] = pin_edit(path, base, changes, name)


def pin_edit(path: str, base: bytes, changes: Sequence[Change], patch: str) -> tuple[FileEdit, bytes]:
    """The pinned edit of one file, and the diff for it.

    Args:
        changes: in order, apart from each other, and fitting the base.
        patch: path of the diff below the overlay's folder.
    """
    hunks = group_changes(base, changes)
    before, after = SourceMap(base), SourceMap(splice(base, changes) or b"")
    names: dict[str, list[int]] = {}
    sections = []
    shift = 0
    for index, hunk in enumerate(hunks):
        touched: list[str] = []
        for change in hunk.changes:
            touched += functions_of(change, before, after, change.start + shift)
            shift += len(change.added) - len(change.removed)
        touched = list(dict.fromkeys(touched)) or [MODULE]
        sections.append(", ".join(touched))
        for name in touched:
            names.setdefault(name, []).append(index)
    functions = tuple(FunctionPin(name, before.fingerprint(name), tuple(at)) for name, at in names.items())
    edit = FileEdit(path, sha256(base), patch, hunks, functions)
    return replace(edit, telling=is_telling(before, edit)), format_patch(path, hunks, sections)


def from_diffs(folder: Path, base: str, base_tree: Path) -> Draft:
    """The diffs that lie in FOLDER/edits/BASE, as they are."""
    draft = Draft(base)
    for file in sorted((folder / "edits" / base).glob("*.patch")):
        name = file.relative_to(folder).as_posix()
        try:
            path, hunks = parse_patch(file.read_bytes())
        except PatchFormatError as exc:
            draft.problems.append(Problem(f"no complete unified diff: {exc}", name))
            continue
        target = base_tree / path
        if not target.is_file():
            draft.problems.append(Problem("the base has no such file", path))
            continue
        data = target.read_bytes()
        edit = FileEdit(path, sha256(data), name, hunks, ())
        wrong = misfits(data, edit, folder.name)
        draft.problems += wrong
        if not wrong:
            draft.add(path, data, edit.changes)
    return draft


def from_trees(
    folder: Path,
    base: str,
    base_tree: Path,
    edited_tree: Path,
    *,
    below: Sequence[Overlay] = (),
    take_modules: bool = False,
) -> Draft:
    """What `edited_tree` changes against `base_tree`, without the edits of the overlays `below`."""
    others = compose(below, base)
    diff = diff_trees(base_tree, edited_tree)
    draft = Draft(base)
    draft.problems += [
        Problem("the edited tree lacks it; an overlay cannot remove a file", p) for p in diff.gone
    ]
    changed = dict(diff.changed)
    for path in others.edits.keys() - changed.keys() - set(diff.gone):
        same = (base_tree / path).read_bytes()
        changed[path] = (same, same)
    for path, (old, edited) in sorted(changed.items()):
        changes, wrong = own_changes(path, old, edited, others)
        draft.problems += wrong
        if changes and not wrong:
            draft.add(path, old, changes)
    kept = module_files(folder)
    for path, data in diff.new.items():
        theirs = others.modules.get(path)
        if data in (kept.get(path), theirs[1] if theirs else None):
            continue
        if take_modules:
            draft.copies[path] = data
        else:
            what = "differs from the one in files/" if path in kept else "is not in files/"
            draft.problems.append(Problem(f"this new file {what} (--take-modules copies it there)", path))
    return draft


def from_base(pins: BasePins, base: str, base_tree: Path, overlay: str) -> Draft:
    """The edits pinned for another base, each hunk moved to the one place where its lines stand in this one.

    A hunk moves only when all its lines are there, to the byte, once, in the function that it was made for.
    """
    draft = Draft(base)
    for path, edit in pins.edits.items():
        target = base_tree / path
        if not target.is_file():
            draft.problems.append(Problem("the base has no such file", path, (overlay,)))
            continue
        data = target.read_bytes()
        source = SourceMap(data)
        changes: list[Change] = []
        wrong: list[Problem] = []
        for index, hunk in enumerate(edit.hunks):
            names = hunk_functions(edit, index)
            found = places(source, hunk.old, hunk, names)
            if len(found) != 1:
                text = f"its lines stand in {base} at {len(found)} places, not one: edit by hand"
                wrong.append(Problem(text, path, (overlay,), ", ".join(names), hunk.lines))
                continue
            moved = found[0] - hunk.start
            changes += [Change(c.start + moved, c.removed, c.added) for c in hunk.changes]
        if not wrong and [c.start for c in changes] != sorted({c.start for c in changes}):
            wrong.append(Problem("the edits would change their order", path, (overlay,)))
        draft.problems += wrong
        if not wrong:
            draft.add(path, data, changes)
    return draft


def own_changes(
    path: str, base: bytes, edited: bytes, others: Composition
) -> tuple[list[Change], list[Problem]]:
    """Changes of `edited` in the base's lines, those of the other overlays told apart."""
    if path not in others.edits:
        return list(changes_between(base, edited)), []
    start = others.render_file(path, base, others.names)
    if not isinstance(start, bytes):
        return [], start
    theirs = sorted((c for _, edit in others.edits[path] for c in edit.changes), key=lambda c: c.start)
    who = tuple(name for name, _ in others.edits[path])
    own: list[Change] = []
    problems: list[Problem] = []
    for change in changes_between(start, edited):
        shift = 0
        for other in theirs:
            at = other.start + shift
            if change.start > at + len(other.added):
                shift += len(other.added) - len(other.removed)
                continue
            if change.start + len(change.removed) >= at:
                lines = f"{change.start + 1}-{max(change.end, change.start + 1)}"
                problems.append(Problem(f"it edits lines of {', '.join(who)} too", path, who, lines=lines))
            break
        own.append(Change(change.start - shift, change.removed, change.added))
    return own, problems


def _syntax_error(data: bytes) -> str:
    try:
        ast.parse(data)
    except (SyntaxError, ValueError) as exc:
        return str(exc)
    return ""
