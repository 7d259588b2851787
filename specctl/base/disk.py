"""Writing so that a reader never sees half of it, and errors that say what the disk said."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specctl.base.errors import WriteFailed

_HINTS = {
    errno.ENOSPC: "free some space, or name another place",
    errno.EDQUOT: "your quota is used up: free some space, or name another place",
    errno.EROFS: "the file system is mounted read-only: name another place",
    errno.EACCES: "you may not write there: name another place, or ask for the right",
    errno.EPERM: "you may not write there: name another place, or ask for the right",
    errno.ENOTDIR: "a file is where a folder is needed",
    errno.EEXIST: "a file is where a folder is needed",
}


@contextmanager
def disk_errors(what: str, path: Path) -> Iterator[None]:
    """Turn an OSError inside into a `WriteFailed` that names the place and the cause.

    Args:
        what: what could not be done, e.g. "the wheel cannot be written".
        path: where.
    """
    try:
        yield
    except OSError as exc:
        cause = exc.strerror or str(exc) or type(exc).__name__
        raise WriteFailed(
            f"{what}: {cause.lower()}",
            context={"path": str(exc.filename or path)},
            hint=_HINTS.get(exc.errno or 0, "look at the path"),
        ) from exc


@contextmanager
def temporary_beside(path: Path, prefix: str = ".specctl-") -> Iterator[Path]:
    """A fresh folder in the folder of `path`, so that a rename into place stays on one file system.

    It is removed afterwards, whatever happened. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, sync it, rename it. Raises OSError; then `path` is as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".specctl-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
