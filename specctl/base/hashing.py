"""The hashes that pin bases: of one file, and of a tree of files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

# What tools leave in a source tree and what no build takes from it.
_SKIP_FOLDERS = frozenset(
    {"__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", "build", "dist", ".venv"}
)


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def source_files(root: Path) -> list[str]:
    """Files of a source tree, sorted, relative with forward slashes; caches, builds and VCS data left out."""
    found: list[str] = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(
            name
            for name in names
            if not name.endswith(".egg-info")
            and (name not in _SKIP_FOLDERS or not _skippable(folder, name, root))
        )
        for name in files:
            if not name.endswith((".pyc", ".pyo")):
                found.append(Path(folder, name).relative_to(root).as_posix())
    return sorted(found)


def tree_sha256(root: Path) -> str:
    """Hex sha256 over the names and bytes of a source tree; neither times, modes nor the place count.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for name in source_files(root):
        path = root / name
        data = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _skippable(folder: str, name: str, root: Path) -> bool:
    """Build folders are skipped only at the top: a package may well hold one of that name."""
    return name not in ("build", "dist", ".venv") or Path(folder) == root
