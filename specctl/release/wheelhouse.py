"""The operator's folder of wheels: which of its files a lock needs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from specctl.errors import UsageError
from specctl.release.actions.upload import Push
from specctl.release.errors import PlanRefused
from specctl.release.identity import sha256_of
from specctl.release.lockfile import Lock

SUFFIXES = (".whl", ".tar.gz", ".zip")


class Wheelhouse:
    """Hashes files when they are first asked for, once for all hosts of a run; threads may share it."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(
                f"the wheelhouse {folder} is not a folder",
                code="no-wheelhouse",
                hint="fill one with: pip download --no-deps --require-hashes -r LOCK -d FOLDER",
            )
        self.folder = folder
        self._names = sorted(p.name for p in folder.iterdir() if p.name.endswith(SUFFIXES))
        self._hashes: dict[str, str] = {}
        self._guard = threading.Lock()

    def needed(self, lock: Lock, environment: Mapping[str, str]) -> tuple[Push, ...]:
        """The files that a lock names, by hash; `remote` is the bare file name.

        Raises:
            PlanRefused: packages that the environment needs and no file here is.
        """
        found: list[Push] = []
        missing = []
        for pin in lock.pins:
            files = [n for n in self._names if _is_of(n, pin.name) and self._hash(n) in pin.hashes]
            found += [self._push(name) for name in files]
            if not files and pin.wanted(environment):
                missing.append(f"{pin.name}=={pin.version}")
        if missing:
            hint = f"fill it: pip download --no-deps --require-hashes -r {lock.path.name} -d {self.folder}"
            if any(package.endswith("+cpu") for package in missing):
                hint += "; the CPU build of torch is on an index of its own, name that with --extra-index-url"
            raise PlanRefused(
                f"the wheelhouse lacks {len(missing)} packages that the lock names",
                code="wheelhouse-incomplete",
                context={"folder": str(self.folder), "missing": "\n".join(missing)},
                hint=hint,
            )
        return tuple(found)

    def tools(self, package: str) -> tuple[Push, ...]:
        """Wheels of a package that no lock names, such as the supervisor of hosts without systemd."""
        return tuple(self._push(name) for name in self._names if _is_of(name, package))

    def _hash(self, name: str) -> str:
        with self._guard:
            if name not in self._hashes:
                self._hashes[name] = sha256_of(self.folder / name)
            return self._hashes[name]

    def _push(self, name: str) -> Push:
        path = self.folder / name
        return Push(str(path), name, self._hash(name), path.stat().st_size)


def _is_of(file: str, package: str) -> bool:
    """Whether a file name begins with this package's name: only those are worth a hash."""
    head = file.split("-")[0] if file.endswith(".whl") else file.rsplit("-", 1)[0]
    return canonicalize_name(head) == package
