"""The output folder: replaced whole or not at all, left alone when nothing changed."""

from __future__ import annotations

import filecmp
import shutil
from fnmatch import fnmatch
from pathlib import Path

from specctl.base.disk import disk_errors
from specctl.build.distribution import DIST_JSON
from specctl.build.errors import OutputRefused

_OURS = (DIST_JSON, "sglang-*.whl", "lock-*.txt")


def check_output(folder: Path) -> None:
    """Refuse a folder that is not ours to replace.

    Raises:
        OutputRefused: a file is there, or a folder with anything but a distribution in it.
        WriteFailed: it cannot be read.
    """
    if folder.is_file():
        raise OutputRefused(f"{folder} is a file", hint="name a folder: --output DIR")
    if not folder.exists():
        return
    with disk_errors("the output folder cannot be read", folder):
        names = sorted(entry.name for entry in folder.iterdir())
    foreign = [name for name in names if not any(fnmatch(name, pattern) for pattern in _OURS)]
    if foreign or (names and DIST_JSON not in names):
        raise OutputRefused(
            f"{folder} holds other files than a distribution",
            context={"there": ", ".join((foreign or names)[:5])},
            hint="name an empty folder, or one that `specctl build` made",
        )


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files with the same bytes."""
    if not other.is_dir():
        return False
    names = sorted(entry.name for entry in one.iterdir())
    if names != sorted(entry.name for entry in other.iterdir()):
        return False
    return all(filecmp.cmp(one / name, other / name, shallow=False) for name in names)


def put_in_place(built: Path, folder: Path) -> bool:
    """Rename a finished folder over `folder`; both must be on one file system.

    Returns:
        False when `folder` held the same bytes already and was left alone.

    Raises:
        OSError: the disk refused; `folder` is then as it was.
    """
    if same(built, folder):
        return False
    old = built.with_name("replaced")
    if folder.exists():
        folder.replace(old)
    try:
        built.replace(folder)
    except OSError:
        if old.exists():
            old.replace(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
    return True
