"""Making the generated half of an overlay from two trees: the base and the edited one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specctl.errors import UsageError
from specctl.overlay.compose import Composition, compose
from specctl.overlay.errors import OverlayConflict, Problem
from specctl.overlay.functions import MODULE, SourceMap, functions_of
from specctl.overlay.manifest import read_manifest
from specctl.overlay.model import Change, FileEdit, FunctionPin, Overlay, sha256
from specctl.overlay.patch import (
    PatchFormatError,
    changes_between,
    format_patch,
    group_changes,
    parse_patch,
)
from specctl.overlay.pins import MODULE_PINS, PINS, format_base, format_modules, module_files
from specctl.overlay.splice import misfits, splice

PACKAGE = "sglang"


@dataclass(frozen=True)
class Pinned:
    """What a pin run wrote."""

    base: str
    edits: dict[str, FileEdit]
    modules: tuple[str, ...]
    changed: tuple[str, ...]  # files of the overlay's folder whose bytes changed, sorted


def pin_edit(path: str, base: bytes, changes: Sequence[Change], patch: str) -> tuple[FileEdit, bytes]:
    """The pinned edit of one file, and its diff."""
    hunks = group_changes(base, changes)
    edited = splice(base, changes)
    if edited is None:
        raise ValueError(f"{path}: the changes do not fit the base")
    before, after = SourceMap(base), SourceMap(edited)
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
    functions = tuple(
        FunctionPin(name, before.fingerprint(name), tuple(where)) for name, where in names.items()
    )
    data = format_patch(path, hunks, sections)
    return FileEdit(path, sha256(base), patch, hunks, functions), data


def diff_trees(
    base_tree: Path, edited_tree: Path
) -> tuple[dict[str, tuple[bytes, bytes]], dict[str, bytes], list[str]]:
    """Compare sglang/ of two folders.

    Returns:
        Changed files as (base, edited) bytes, files that only the edited tree has, and paths that only the
        base has.
    """
    old, new = _files(base_tree), _files(edited_tree)
    changed = {}
    for path in sorted(old.keys() & new.keys()):
        if old[path].samefile(new[path]):
            continue
        pair = old[path].read_bytes(), new[path].read_bytes()
        if pair[0] != pair[1]:
            changed[path] = pair
    return (
        changed,
        {p: new[p].read_bytes() for p in sorted(new.keys() - old.keys())},
        sorted(old.keys() - new.keys()),
    )


def _files(tree: Path) -> dict[str, Path]:
    if not (tree / PACKAGE).is_dir():
        raise UsageError(
            f"{tree} contains no {PACKAGE}/", hint="give the folder above sglang/, an unpacked wheel"
        )
    return {
        path.relative_to(tree).as_posix(): path
        for path in (tree / PACKAGE).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".orig", ".rej")
    }


def pin(
    folder: Path,
    base: str,
    base_tree: Path,
    edited_tree: Path | None = None,
    *,
    below: Sequence[Overlay] = (),
    take_modules: bool = False,
) -> Pinned:
    """Write edits/BASE/*.patch, pins/BASE.yaml and pins/modules.yaml of the overlay in `folder`.

    Args:
        base: the base's version.
        base_tree: holds the base's own sglang/.
        edited_tree: holds the same with this overlay's edits; None: pin the diffs that are there.
        below: overlays that are in the edited tree too; their edits are told apart from this one's.
        take_modules: copy new files of the edited tree into files/.

    Raises:
        OverlayConflict: edits mix with those of `below`, diffs do not fit, or new files are not in files/.
        UsageError: a tree is no tree, or the edited tree changes nothing.
    """
    read_manifest(folder)
    if edited_tree is None:
        edits, patches, copies = _pin_diffs(folder, base, base_tree)
    else:
        edits, patches, copies = _pin_trees(folder, base, base_tree, edited_tree, below, take_modules)
    modules = {**module_files(folder), **copies}
    hidden = [path for path in modules if (base_tree / path).is_file()]
    if hidden:
        raise OverlayConflict(
            "a module hides a file of the base", [Problem("the base has it", p) for p in hidden]
        )
    out: dict[str, bytes] = {f"files/{path}": data for path, data in copies.items()}
    out.update(patches)
    out[f"{PINS}/{base}.yaml"] = format_base(base, edits, patches).encode()
    out[f"{PINS}/{MODULE_PINS}"] = format_modules(modules).encode()
    stale = [
        p for p in (folder / "edits" / base).glob("*.patch") if p.relative_to(folder).as_posix() not in out
    ]
    changed = [name for name, data in out.items() if not _same(folder / name, data)]
    for name in changed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(out[name])
    for path in stale:
        path.unlink()
    changed += [path.relative_to(folder).as_posix() for path in stale]
    return Pinned(base, edits, tuple(sorted(modules)), tuple(sorted(changed)))


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _patch_name(base: str, path: str) -> str:
    return f"edits/{base}/{path.replace('/', '.')}.patch"


Drafts = tuple[dict[str, FileEdit], dict[str, bytes], dict[str, bytes]]  # edits, diffs, modules to copy


def _pin_diffs(folder: Path, base: str, base_tree: Path) -> Drafts:
    edits: dict[str, FileEdit] = {}
    patches: dict[str, bytes] = {}
    problems: list[Problem] = []
    for file in sorted((folder / "edits" / base).glob("*.patch")):
        name = file.relative_to(folder).as_posix()
        try:
            path, hunks = parse_patch(file.read_bytes())
        except PatchFormatError as exc:
            problems.append(Problem(f"no complete unified diff: {exc}", path=name))
            continue
        target = base_tree / path
        data = target.read_bytes() if target.is_file() else None
        if data is None:
            problems.append(Problem("the base has no such file", path=path))
            continue
        if path in edits:
            problems.append(Problem("two diffs edit this file; write one", path=path))
            continue
        draft = FileEdit(path, sha256(data), name, hunks, ())
        wrong = misfits(data, draft, folder.name)
        if wrong:
            problems += wrong
            continue
        new_name = _patch_name(base, path)
        edits[path], patches[new_name] = pin_edit(path, data, draft.changes, new_name)
    if problems:
        raise OverlayConflict(f"the diffs of {folder.name} do not fit the base {base}", problems)
    return edits, patches, {}


def _pin_trees(
    folder: Path, base: str, base_tree: Path, edited_tree: Path, below: Sequence[Overlay], take_modules: bool
) -> Drafts:
    others = compose(below, base)
    changed, new, gone = diff_trees(base_tree, edited_tree)
    problems = [Problem("the edited tree lacks it, and an overlay cannot remove a file", p) for p in gone]
    edits: dict[str, FileEdit] = {}
    patches: dict[str, bytes] = {}
    for path in others.edits:
        if path not in changed and (base_tree / path).is_file():
            data = (base_tree / path).read_bytes()
            changed[path] = (data, data)
    for path, (old, edited) in sorted(changed.items()):
        changes, wrong = _own_changes(path, old, edited, others)
        problems += wrong
        if wrong or not changes:
            continue
        if path.endswith(".py") and _syntax_error(edited) and not _syntax_error(old):
            problems.append(Problem(f"the edited file is no Python: {_syntax_error(edited)}", path))
            continue
        name = _patch_name(base, path)
        edits[path], patches[name] = pin_edit(path, old, changes, name)
    copies: dict[str, bytes] = {}
    kept = module_files(folder)
    for path, data in new.items():
        if kept.get(path) == data or (path in others.modules and others.modules[path][1] == data):
            continue
        if take_modules:
            copies[path] = data
        else:
            what = "differs from the one in files/" if path in kept else "is not in files/"
            problems.append(Problem(f"this new file {what}", path))
    if problems:
        raise OverlayConflict(
            f"{folder.name} cannot be pinned; nothing was written",
            problems,
            hint="new files: --take-modules copies them into files/; other overlays in the tree: --with NAME",
        )
    if not edits and not kept and not copies:
        raise UsageError(f"{edited_tree} does not differ from {base_tree}")
    return edits, patches, copies


def _own_changes(
    path: str, base: bytes, edited: bytes, others: Composition
) -> tuple[list[Change], list[Problem]]:
    """Changes of `edited` in the base's lines, without those of the other overlays."""
    if path not in others.edits:
        return list(changes_between(base, edited)), []
    start = others.render_file(path, base, others.names)
    if not isinstance(start, bytes):
        return [], start
    theirs = sorted((c for _, edit in others.edits[path] for c in edit.changes), key=lambda c: c.start)
    own: list[Change] = []
    problems: list[Problem] = []
    for change in changes_between(start, edited):
        shift = 0
        for other in theirs:
            at = other.start + shift
            if change.start > at + len(other.added):
                shift += len(other.added) - len(other.removed)
                continue
            if change.end >= at:
                who = tuple(name for name, _ in others.edits[path])
                where = f"{change.start + 1}-{max(change.end, change.start + 1)}"
                problems.append(
                    Problem(f"the edit touches lines of {', '.join(who)}", path, who, lines=where)
                )
            break
        own.append(Change(change.start - shift, change.removed, change.added))
    return own, problems


def _syntax_error(data: bytes) -> str:
    try:
        ast.parse(data)
    except (SyntaxError, ValueError) as exc:
        return f"{exc}"
    return ""
