"""A tree that holds sglang: a folder, an installed environment or a wheel. Read only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path

from specctl.overlay.errors import TreeError

PACKAGE = "sglang"


@dataclass(frozen=True)
class Tree:
    """Where sglang's files are and which version they say they are."""

    root: Path  # the folder above sglang/
    version: str | None

    @classmethod
    def open(cls, path: Path) -> Tree:
        """Look at a folder above sglang/.

        Raises:
            TreeError: there is no sglang in it.
        """
        if not (path / PACKAGE).is_dir():
            raise TreeError(f"{path} contains no {PACKAGE}/")
        return cls(path, folder_version(path))


def folder_version(root: Path) -> str | None:
    """The version from dist-info, else from sglang/_version.py or version.py; None when neither says one."""
    for info in sorted(root.glob(f"{PACKAGE}-*.dist-info/METADATA")):
        return str(BytesParser().parsebytes(info.read_bytes(), headersonly=True)["Version"])
    for name in ("_version.py", "version.py"):
        file = root / PACKAGE / name
        if file.is_file():
            found = re.search(rb"""^__version__\b[^'"\n]*['"]([^'"\n]+)['"]""", file.read_bytes(), re.M)
            if found:
                return found.group(1).decode()
    return None
