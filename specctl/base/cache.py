"""The cache of base wheels: a folder per hash, so that a name can never stand for other bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from specctl.base.disk import disk_errors, temporary_beside


class Cache:
    """Wheels by the hash of what they come from (the wheel's own, or the source tree's)."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def discover(cls, explicit: Path | None = None, env: Mapping[str, str] | None = None) -> Cache:
        """`explicit`, else $XDG_CACHE_HOME/specctl, else ~/.cache/specctl."""
        if explicit is not None:
            return cls(explicit)
        environ = os.environ if env is None else env
        return cls(Path(environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")) / "specctl")

    def find(self, key: str) -> Path | None:
        """The wheel under a hash, whatever its file name; None when there is none."""
        found = sorted((self.root / "wheels" / key).glob("*.whl"))
        return found[0] if found else None

    def drop(self, key: str) -> None:
        """Forget a wheel that turned out to be damaged."""
        found = self.find(key)
        if found:
            found.unlink(missing_ok=True)

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A temporary folder on the cache's file system. Raises WriteFailed."""
        with (
            disk_errors("the cache cannot be written", self.root),
            temporary_beside(self.root / "wheels" / "_", prefix=".fetch-") as folder,
        ):
            yield folder

    def keep(self, wheel: Path, key: str) -> Path:
        """Move a checked wheel (from a `workspace`) under its hash. Raises WriteFailed."""
        target = self.root / "wheels" / key / wheel.name
        with disk_errors("the cache cannot be written", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            wheel.replace(target)
        return target
