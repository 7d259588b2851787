"""Writing the generated half of an overlay: diffs, base hashes, function hashes, module hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specctl.errors import UsageError
from specctl.overlay.draft import Draft, from_base, from_diffs, from_trees
from specctl.overlay.errors import OverlayConflict, Problem, UnsupportedBaseError
from specctl.overlay.landed import landed_by_manifest
from specctl.overlay.manifest import Manifest, read_manifest
from specctl.overlay.model import FileEdit, Overlay
from specctl.overlay.pins import MODULE_PINS, PINS, format_base, format_modules, module_files, read_base
from specctl.overlay.tree import Tree


@dataclass(frozen=True)
class Pinned:
    """What a pin run found and wrote.

    Attributes:
        changed: files of the overlay's folder that were written or removed, sorted.
    """

    base: str
    edits: dict[str, FileEdit]
    modules: tuple[str, ...]
    changed: tuple[str, ...]


def pin(
    folder: Path,
    base_tree: Path,
    edited_tree: Path | None = None,
    *,
    base: str | None = None,
    source: str | None = None,
    below: Sequence[Overlay] = (),
    take_modules: bool = False,
) -> Pinned:
    """Write edits/BASE/*.patch, pins/BASE.yaml and pins/modules.yaml of the overlay in `folder`.

    Args:
        base_tree: holds the base's own sglang/.
        edited_tree: holds the same with this overlay's edits.
        base: the base's version; None: what `base_tree` says.
        source: without an edited tree, move the edits pinned for this other base to `base_tree`.
        below: overlays that are in the edited tree too; their edits are told apart from this one's.
        take_modules: copy new files of the edited tree into files/.

    With neither an edited tree nor a source, the diffs that lie in edits/BASE are pinned as they are.

    Raises:
        OverlayConflict: with all reasons why it cannot be pinned; nothing was written.
        UsageError: a tree is no tree, the version is not known, or there is nothing to pin.
    """
    manifest = read_manifest(folder)
    tree = Tree.open(base_tree)
    version = base or tree.version
    if version is None:
        raise UsageError(f"{base_tree} does not say its version", hint="give it: --base 0.5.9")
    if edited_tree is not None:
        edited = Tree.open(edited_tree).root
        draft = from_trees(folder, version, tree.root, edited, below=below, take_modules=take_modules)
    elif source is not None:
        file = folder / PINS / f"{source}.yaml"
        if not file.is_file():
            known = ", ".join(sorted(p.stem for p in file.parent.glob("[0-9]*.yaml"))) or "none"
            raise UnsupportedBaseError(
                f"{folder.name} holds no pins for {source}", hint=f"pinned bases: {known}"
            )
        draft = from_base(read_base(folder, file), version, tree.root, folder.name)
    else:
        draft = from_diffs(folder, version, tree.root)
    modules = {**module_files(folder), **draft.copies}
    problems = [*draft.problems, *_contradictions(tree, manifest, draft, modules)]
    if problems:
        raise OverlayConflict(f"{folder.name} cannot be pinned to {version}; nothing was written", problems)
    if not draft.edits and not modules:
        raise UsageError(
            f"there is nothing to pin for {folder.name}",
            hint="give --edited-tree, or put diffs into edits/BASE or modules into files/",
        )
    return Pinned(version, draft.edits, tuple(sorted(modules)), _write(folder, draft, modules))


def _contradictions(tree: Tree, manifest: Manifest, draft: Draft, modules: dict[str, bytes]) -> list[Problem]:
    """What cannot be true of a base: it was edited, it has our modules, or it holds the change already."""
    problems = [
        Problem("the base has this file; a module of ours cannot", p) for p in modules if tree.read(p)
    ]
    for path, edit in draft.edits.items():
        if tree.recorded is not None and tree.recorded.get(path) != edit.base_sha256:
            problems.append(Problem("the base's RECORD says other bytes: the base tree was edited", path))
        note = manifest.notes.get(path)
        upstream = note.upstream if note and note.upstream else manifest.upstream
        why = landed_by_manifest(upstream, draft.base, tree.read)
        if why:
            problems.append(Problem(f"by the manifest it has landed in this base: {why}", path))
    return problems


def _write(folder: Path, draft: Draft, modules: dict[str, bytes]) -> tuple[str, ...]:
    out: dict[str, bytes] = {f"files/{path}": data for path, data in draft.copies.items()}
    out.update(draft.patches)
    out[f"{PINS}/{draft.base}.yaml"] = format_base(draft.base, draft.edits, draft.patches).encode()
    out[f"{PINS}/{MODULE_PINS}"] = format_modules(modules).encode()
    old = {p.relative_to(folder).as_posix(): p for p in (folder / "edits" / draft.base).glob("*.patch")}
    changed = [name for name, data in out.items() if not _holds(folder / name, data)]
    for name in changed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(out[name])
    stale = sorted(old.keys() - out.keys())
    for name in stale:
        old[name].unlink()
    return tuple(sorted([*changed, *stale]))


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data
