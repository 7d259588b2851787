"""Checking a wheel or a checkout against what is known: which base is it, and what differs."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specctl.base.errors import SourceError
from specctl.base.model import Base
from specctl.base.process import Run, run
from specctl.base.source import Checkout, described_version, look_at


@dataclass(frozen=True)
class TreeCheck:
    """A checkout beside the release it is nearest to.

    Attributes:
        folder: the one that holds sglang/.
        version: what the tree or its git tags say; None when neither does.
        base: name of the base it was compared with; None when its version is no known base's.
        modified, missing, added: Python files below sglang/ that differ, lack, or are more than the base's.
        workers: worker class -> whether its file is the base's, changed or missing.
    """

    folder: str
    version: str | None
    sha256: str
    base: str | None
    modified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    workers: Mapping[str, str] | None = None

    @property
    def identical(self) -> bool:
        return self.base is not None and not (self.modified or self.missing or self.added)


def look_at_tree(path: Path, *, runner: Run = run) -> Checkout:
    """A checkout, with the version of its git tags where its files say none.

    Raises:
        SourceError, AlreadyPatched: see `source.look_at`.
    """
    checkout = look_at(path)
    if checkout.version is None:
        return Checkout(checkout.folder, described_version(path, runner), checkout.sha256)
    return checkout


def compare_tree(checkout: Checkout, base: Base | None, wheel: Path | None) -> TreeCheck:
    """Compare a checkout's Python files with those of a base wheel.

    Args:
        base, wheel: what to compare with; None when no base is known for it.

    Raises:
        SourceError: a file cannot be read.
    """
    told = TreeCheck(str(checkout.folder), checkout.version, checkout.sha256, None)
    if base is None or wheel is None:
        return told
    with zipfile.ZipFile(wheel) as archive:
        known = {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name.startswith("sglang/") and name.endswith(".py") and name != "sglang/_version.py"
        }
    here = _python_files(checkout.folder)
    modified = tuple(sorted(name for name in known.keys() & here.keys() if known[name] != here[name]))
    missing = tuple(sorted(known.keys() - here.keys()))
    changed = {**dict.fromkeys(modified, "changed"), **dict.fromkeys(missing, "missing")}
    return TreeCheck(
        str(checkout.folder),
        checkout.version,
        checkout.sha256,
        base.name,
        modified,
        missing,
        tuple(sorted(here.keys() - known.keys())),
        {worker: changed.get(file, "as the base") for worker, file in base.workers.items()},
    )


def _python_files(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted((folder / "sglang").rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if "__pycache__" in name or name == "sglang/_version.py":
            continue
        try:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as exc:
            raise SourceError(f"{path} cannot be read: {exc.strerror}") from exc
    return found
