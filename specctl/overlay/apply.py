"""Bringing a tree to wanted overlays: read all, decide all, then write all or nothing."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from specctl.overlay.compose import Composition
from specctl.overlay.errors import OverlayConflict, Problem
from specctl.overlay.model import sha256
from specctl.overlay.transaction import Disk, commit


def apply_to_tree(tree: Path, comp: Composition, *, disk: Disk | None = None) -> list[str]:
    """Put all overlays of `comp` into a folder that contains sglang/.

    Args:
        tree: the folder; a symbolic link to it is followed.
        disk: file operations, for tests.

    Returns:
        Paths that were written, sorted; empty when everything was applied already.

    Raises:
        OverlayConflict: a file is neither the base nor the base with overlays of `comp`; with all problems,
            and nothing was written.
        TreeWriteError: the disk refused.
    """
    return settle(tree, comp, comp.names, disk=disk)


def remove_from_tree(
    tree: Path, comp: Composition, *, keep: Collection[str] = (), disk: Disk | None = None
) -> list[str]:
    """Take the overlays of `comp` out of a folder, all but those named in `keep`; restores the base's bytes.

    Returns:
        Paths that were written or removed, sorted; empty when nothing was applied.

    Raises:
        OverlayConflict, TreeWriteError: as `apply_to_tree`.
    """
    return settle(tree, comp, frozenset(keep), disk=disk)


def settle(tree: Path, comp: Composition, wanted: Collection[str], *, disk: Disk | None = None) -> list[str]:
    """Bring a folder to exactly the `wanted` overlays of `comp`, from whichever of them it holds now."""
    root = tree.resolve()
    writes: dict[str, bytes] = {}
    deletes: list[str] = []
    problems: list[Problem] = []
    for path, owned in comp.edits.items():
        who = tuple(name for name, _ in owned)
        data, problem = _content(root, path, who)
        if problem or data is None:
            problems.append(problem or Problem("the tree has no such file", path=path, overlays=who))
            continue
        found = comp.recognise(path, data)
        if found is None:
            problems += _unknown(comp, path, data, who)
            continue
        new = comp.render_file(path, found.base, wanted)
        if not isinstance(new, bytes):
            problems += new
        elif new != data:
            writes[path] = new
    for path, (name, module) in comp.modules.items():
        data, problem = _content(root, path, (name,))
        if problem:
            problems.append(problem)
        elif data is not None and data != module:
            detail = f"- sha256 {sha256(module)}\n+ sha256 {sha256(data)}"
            problems.append(
                Problem("another file is where this module belongs", path, (name,), detail=detail)
            )
        elif name in wanted and data is None:
            writes[path] = module
        elif name not in wanted and data is not None:
            deletes.append(path)
    if problems:
        raise OverlayConflict(
            f"{tree} does not fit; nothing was changed",
            problems,
            hint=f"see more: specctl overlay status {tree}",
        )
    if writes or deletes:
        commit(root, writes, deletes, disk)
    return sorted([*writes, *deletes])


def _content(root: Path, path: str, who: tuple[str, ...]) -> tuple[bytes | None, Problem | None]:
    """Bytes of a file of the tree; None when nothing is there; a problem when something else is."""
    target = root / path
    if not target.parent.resolve().is_relative_to(root):
        return None, Problem(
            "a symbolic link leads out of the tree", path, who, detail=f"it is {target.parent.resolve()}"
        )
    try:
        return target.read_bytes(), None
    except FileNotFoundError:
        if target.is_symlink():
            return None, Problem("it is a symbolic link to nothing", path, who)
        return None, None
    except OSError as exc:
        return None, Problem(f"it cannot be read: {exc.strerror}", path, who)


def _unknown(comp: Composition, path: str, data: bytes, who: tuple[str, ...]) -> list[Problem]:
    problems = comp.render_file(path, data, comp.names)
    # A hand edit away from every hunk still fits them; the hash is then all that can be said.
    return problems if isinstance(problems, list) else [Problem("its bytes are not known", path, who)]
