"""All changes to a tree, or none: stage each file beside its target, then swap; on a failure swap back."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from specctl.overlay.errors import TreeWriteError

_MARK = ".specctl-"


class Disk:
    """The file operations that a transaction uses; tests hand in one that fails."""

    def write(self, path: Path, data: bytes, like: os.stat_result | None) -> None:
        """Write a new file to the platter, with the mode and owner of `like`."""
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        path.chmod(stat.S_IMODE(like.st_mode) if like else 0o644)
        if like and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.chown(path, like.st_uid, like.st_gid)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink()


def commit(root: Path, writes: Mapping[str, bytes], deletes: Iterable[str], disk: Disk | None = None) -> None:
    """Write and delete files below `root`, each in one step, so that a reader never sees half a file.

    A file that is a hard link or a symbolic link is replaced by a file of its own; what it was linked to
    keeps its bytes. Directories that become empty are removed.

    Raises:
        TreeWriteError: the disk refused. The tree is as it was, unless the message says otherwise.
    """
    disk = disk or Disk()
    deletes = list(deletes)
    staged: list[tuple[Path, Path]] = []
    made: list[Path] = []
    at = root
    try:
        for name, data in writes.items():
            at = target = root / name
            made += _make_parents(target.parent)
            temporary = _beside(target)
            staged.append((temporary, target))
            like = target.stat() if target.is_file() else None
            disk.write(temporary, data, like)
    except BaseException as exc:
        _drop([temporary for temporary, _ in staged], made)
        if isinstance(exc, OSError):
            raise _refused(exc, at, "nothing was changed") from exc
        raise
    _swap(root, staged, deletes, made, disk)
    _forget_compiled(root, [*writes, *deletes])
    for name in deletes:
        _remove_empty((root / name).parent, root)


def _swap(
    root: Path, staged: list[tuple[Path, Path]], deletes: list[str], made: list[Path], disk: Disk
) -> None:
    undo: list[tuple[Path | None, Path]] = []  # (backup, target); no backup: the target was not there
    at = root
    try:
        for name in deletes:
            at = target = root / name
            backup = _beside(target)
            disk.rename(target, backup)
            undo.append((backup, target))
        for temporary, target in staged:
            at = target
            undo.append((_keep(target), target))
            disk.rename(temporary, target)
    except BaseException as exc:
        stuck = _put_back(undo)
        _drop([temporary for temporary, _ in staged], made)
        if isinstance(exc, OSError):
            state = (
                "nothing was changed" if not stuck else "and these could not be put back: " + ", ".join(stuck)
            )
            raise _refused(exc, at, state) from exc
        raise
    for kept, _ in undo:
        if kept is not None:
            with contextlib.suppress(OSError):
                disk.unlink(kept)


def _put_back(undo: list[tuple[Path | None, Path]]) -> list[str]:
    stuck = []
    for backup, target in reversed(undo):
        try:
            if backup is not None:
                backup.replace(target)
                backup.unlink(missing_ok=True)  # renaming a file onto another name of itself does nothing
            else:
                target.unlink(missing_ok=True)
        except OSError as exc:
            stuck.append(f"{target} ({exc.strerror}; its old bytes: {backup})")
    return stuck


def _keep(target: Path) -> Path | None:
    """A second name for what is at `target`, so that going back needs no disk space."""
    if not os.path.lexists(target):
        return None
    backup = _beside(target)
    try:
        os.link(target, backup, follow_symlinks=False)
    except OSError:  # a file system without hard links
        backup.write_bytes(target.read_bytes())
        backup.chmod(stat.S_IMODE(target.stat().st_mode))
    return backup


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}{_MARK}{secrets.token_hex(4)}")


def _make_parents(folder: Path) -> list[Path]:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir()
    return missing


def _drop(files: Iterable[Path], folders: Iterable[Path]) -> None:
    for path in files:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    for path in sorted(folders, key=lambda p: -len(p.parts)):
        with contextlib.suppress(OSError):
            path.rmdir()


def _forget_compiled(root: Path, names: Iterable[str]) -> None:
    """Remove compiled files of what changed: one never checked against its source would hide the change."""
    for name in names:
        path = root / PurePosixPath(name)
        if path.suffix == ".py":
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                with contextlib.suppress(OSError):
                    compiled.unlink()


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root:
        with contextlib.suppress(OSError):
            (folder / "__pycache__").rmdir()
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _refused(exc: OSError, path: Path, state: str) -> TreeWriteError:
    return TreeWriteError(
        f"{path.name} could not be changed: {exc.strerror or exc}; {state}",
        context={"file": str(path), "cause": f"{type(exc).__name__}: {exc}"},
        hint="check that the folder is writable and the disk is not full (df, mount), then run it again",
    )
