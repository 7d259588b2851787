"""A tree that holds sglang: a folder, an installed environment or a wheel. Read only."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from specctl.overlay.environment import (
    dist_infos,
    editable_root,
    environment_paths,
    holds_package,
    is_environment,
)
from specctl.overlay.errors import TreeError
from specctl.overlay.record import PACKAGE, metadata_field, recorded_hashes

_VERSION = re.compile(rb"""^__version__\b[^'"\n]*['"]([^'"\n]+)['"]""", re.MULTILINE)


class TreeKind(str, Enum):
    """FOLDER: an unpacked wheel or a source tree. INSTALLED: what an environment imports."""

    FOLDER = "folder"
    INSTALLED = "installed"
    EDITABLE = "editable"
    WHEEL = "wheel"


@dataclass(frozen=True)
class Tree:
    """Where sglang's files are, which version they say they are, and what RECORD says of them.

    Attributes:
        root: the folder above sglang/, or the wheel.
        version: None when nothing in the tree says one.
        version_source: the file that says it.
        recorded: path -> sha256 of RECORD's files below sglang/; None without a RECORD that lists any.
    """

    root: Path
    kind: TreeKind
    version: str | None
    version_source: str | None
    recorded: Mapping[str, str] | None
    archive: zipfile.ZipFile | None = field(default=None, compare=False, repr=False)

    @classmethod
    def open(cls, path: Path) -> Tree:
        """Find out what `path` is: a wheel, a folder above sglang/, sglang/ itself, a checkout, a virtual
        environment, or its python.

        Raises:
            TreeError: no sglang is there, or two distributions of it are.
        """
        if path.suffix == ".whl" and path.is_file():
            return _open_wheel(path)
        for folder in (path, path / "python", path.parent if path.name == PACKAGE else path):
            if holds_package(folder):
                infos = dist_infos(folder)
                installed = folder.name in ("site-packages", "dist-packages")
                kind = TreeKind.INSTALLED if installed else TreeKind.FOLDER
                return _open_folder(folder, kind, _one(infos))
        if not path.exists():
            raise TreeError(f"{path} does not exist")
        if is_environment(path) or dist_infos(path):
            return _open_environment(path)
        raise TreeError(
            f"{path} holds no {PACKAGE}",
            hint=f"give a folder above {PACKAGE}/, a virtual environment, its python, or a wheel",
        )

    def read(self, path: str) -> bytes | None:
        """Bytes of a file by its path below `root`; None when there is none.

        Raises:
            TreeError: it is there and cannot be read.
        """
        if self.archive is not None:
            try:
                return self.archive.read(path)
            except KeyError:
                return None
            except (zipfile.BadZipFile, OSError) as exc:
                raise TreeError(f"{path} in {self.root} cannot be read: {exc}") from exc
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise TreeError(f"{self.root / path} cannot be read: {exc.strerror}") from exc

    def sources(self) -> list[str]:
        """Paths of all Python files below sglang/, sorted."""
        if self.archive is not None:
            names = (n for n in self.archive.namelist() if n.startswith(f"{PACKAGE}/") and n.endswith(".py"))
            return sorted(names)
        found = (self.root / PACKAGE).rglob("*.py")
        return sorted(p.relative_to(self.root).as_posix() for p in found if "__pycache__" not in p.parts)


def _open_wheel(path: Path) -> Tree:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as exc:
        raise TreeError(f"{path} is no readable wheel: {exc}") from exc
    infos = [n for n in archive.namelist() if re.fullmatch(rf"{PACKAGE}-[^/]+\.dist-info/METADATA", n)]
    if len(infos) != 1 or f"{PACKAGE}/__init__.py" not in archive.namelist():
        raise TreeError(f"{path} is no wheel of {PACKAGE}")
    version = metadata_field(archive.read(infos[0]), "Version")
    record = infos[0].replace("METADATA", "RECORD")
    recorded = recorded_hashes(archive.read(record)) if record in archive.namelist() else None
    return Tree(path, TreeKind.WHEEL, version, infos[0], recorded or None, archive)


def _open_environment(path: Path) -> Tree:
    folders = [path] if path.is_dir() and dist_infos(path) else environment_paths(path)
    for folder in folders:
        info = _one(dist_infos(folder))
        if holds_package(folder):
            return _open_folder(folder, TreeKind.INSTALLED, info)
        root = editable_root([folder], info)
        if root is not None:
            return _open_folder(root, TreeKind.EDITABLE, info)
    raise TreeError(
        f"no {PACKAGE} is installed in {path}",
        context={"looked in": "\n".join(str(folder) for folder in folders) or "no site-packages"},
    )


def _open_folder(root: Path, kind: TreeKind, info: Path | None) -> Tree:
    recorded = None
    version = source = None
    if info is not None:
        version = metadata_field((info / "METADATA").read_bytes(), "Version")
        source = f"{info.name}/METADATA"
        if kind is not TreeKind.EDITABLE and (info / "RECORD").is_file():
            recorded = recorded_hashes((info / "RECORD").read_bytes()) or None
    for name in ("_version.py", "version.py"):
        file = root / PACKAGE / name
        found = _VERSION.search(file.read_bytes()) if version is None and file.is_file() else None
        if found:
            version, source = found.group(1).decode("utf-8", "replace"), f"{PACKAGE}/{name}"
    return Tree(root, kind, version, source, recorded)


def _one(infos: list[Path]) -> Path | None:
    if len(infos) > 1:
        raise TreeError(
            f"two distributions of {PACKAGE} are in one folder, so its version is not known",
            context={"found": "\n".join(str(info) for info in infos)},
            hint="one is a leftover of a broken upgrade: install again, or remove the wrong dist-info",
        )
    return infos[0] if infos else None
