"""The distribution and what goes with it, as files on the operator's machine; read once for all hosts."""

from __future__ import annotations

import platform
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import uv

from specctl.build.distribution import DIST_JSON, Distribution
from specctl.config.model import EnvironmentKind, HostConfig, Supervisor
from specctl.errors import UsageError
from specctl.release.actions.upload import Push
from specctl.release.deploy_plan import Source
from specctl.release.identity import lock_file, release_id, sha256_of
from specctl.release.lockfile import Lock, read_lock
from specctl.release.wheelhouse import Wheelhouse

LOCK_NAME = "lock.txt"  # in a release's folder, whatever its name in the distribution


class SourceFolder:
    """A distribution's folder. Threads may share it.

    Raises:
        UsageError: there is no distribution, or its wheel is not the one that it names.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.distribution = Distribution.load(folder)
        wheel = folder / self.distribution.wheel
        seen = sha256_of(wheel) if wheel.is_file() else "absent"
        if seen != self.distribution.wheel_sha256:
            raise UsageError(
                f"the wheel in {folder} is not the one that its {DIST_JSON} names",
                code="wheel-differs",
                context={"file": str(wheel), "expected": self.distribution.wheel_sha256, "seen": seen},
                hint="build the distribution again",
            )
        self._locks: dict[str, Lock] = {}
        self._wheelhouses: dict[str, Wheelhouse] = {}

    def release_of(self, host: HostConfig) -> str:
        """The id of the release that this host would get."""
        lock = None if host.environment is EnvironmentKind.ADOPTED else self.lock(host).sha256
        return release_id(self.distribution, host, lock)

    def packages(self, host: HostConfig) -> int:
        """How many packages this host would install beside SGLang."""
        return 0 if host.environment is EnvironmentKind.ADOPTED else len(self.lock(host).pins)

    def lock(self, host: HostConfig) -> Lock:
        name = lock_file(self.distribution, host)
        if name not in self._locks:
            self._locks[name] = read_lock(self.folder / name)
        return self._locks[name]

    def for_host(self, host: HostConfig, *, wheels: bool, environment: dict[str, str]) -> Source:
        """What would be pushed. `wheels`: also look into the wheelhouse, which reads it all the first time.

        `environment`: PEP 508 variables of the host, for markers in the lock.
        """
        wheel = self.folder / self.distribution.wheel
        files = [
            Push(str(wheel), wheel.name, self.distribution.wheel_sha256, wheel.stat().st_size),
            _push(self.folder / DIST_JSON, DIST_JSON),
        ]
        found: tuple[Push, ...] = ()
        house = self._wheelhouse(host.wheelhouse) if wheels and host.wheelhouse else None
        if house and host.supervisor is Supervisor.SUPERVISOR:
            found = house.tools("supervisor")
        if host.environment is EnvironmentKind.ADOPTED:
            return Source(self.distribution, tuple(files), 0, found)
        lock = self.lock(host)
        files.append(_push(lock.path, LOCK_NAME))
        if house and lock.pins:
            found += house.needed(lock, environment)
        return Source(self.distribution, tuple(files), len(lock.pins), found)

    def _wheelhouse(self, folder: str) -> Wheelhouse:
        if folder not in self._wheelhouses:
            self._wheelhouses[folder] = Wheelhouse(Path(folder))
        return self._wheelhouses[folder]


def _push(path: Path, name: str, mode: int = 0o644) -> Push:
    return Push(str(path), name, sha256_of(path), path.stat().st_size, mode)


@lru_cache(maxsize=1)
def own_uv() -> tuple[str, Push, str] | None:
    """(version, file, machine) of the uv that came with specctl; None where there is none."""
    try:
        path = Path(uv.find_uv_bin())
        version = metadata.version("uv")
        return version, _push(path, f"uv-{version}", 0o755), platform.machine()
    except (OSError, metadata.PackageNotFoundError):
        return None
