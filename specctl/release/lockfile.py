"""What a requirements lock names: packages, versions, hashes. Pure but for reading the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from specctl.errors import UsageError
from specctl.release.identity import sha256_of

_REQUIREMENT = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(==|@)\s*([^\s;\\]+)\s*(?:;([^\\#]*))?"
)
_HASH = re.compile(r"--hash[= ]sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One locked package."""

    name: str  # normalized
    version: str
    hashes: frozenset[str]  # sha256 of every file that counts as this version
    marker: str | None = None

    def wanted(self, environment: Mapping[str, str]) -> bool:
        """Whether an environment (PEP 508 variables that differ from a Linux host's) needs it."""
        if not self.marker:
            return True
        from packaging.markers import Marker  # slow to import, and only asked for when packages are installed

        linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
        linux["implementation_name"], linux["platform_python_implementation"] = "cpython", "CPython"
        return Marker(self.marker).evaluate({**linux, **environment})


@dataclass(frozen=True)
class Lock:
    """One lock file."""

    path: Path
    sha256: str
    pins: tuple[Pin, ...]


def read_lock(path: Path) -> Lock:
    """Read a lock.

    Raises:
        UsageError: it is not there, or a requirement in it has no version or no hash.
    """
    try:
        text = path.read_text(encoding="utf-8")
        digest = sha256_of(path)
    except OSError as exc:
        raise UsageError(f"the lock {path} cannot be read: {exc.strerror}", code="lock-file") from exc
    return Lock(path, digest, parse_lock(text, str(path)))


def parse_lock(text: str, where: str = "lock") -> tuple[Pin, ...]:
    """The pins of a lock's text; options and comments are passed over."""
    pins = []
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        line = line.strip()
        if not line or line.startswith(("#", "-")):
            continue
        found = _REQUIREMENT.match(line)
        hashes = frozenset(_HASH.findall(line))
        if not found or not hashes:
            raise UsageError(
                f"a requirement without a pinned version or hash: {line[:80]}",
                code="lock-file",
                context={"file": where},
                hint="make the lock with uv pip compile --generate-hashes",
            )
        marker = (found.group(4) or "").split("--hash")[0].strip()
        pins.append(Pin(canonicalize_name(found.group(1)), found.group(3), hashes, marker or None))
    return tuple(pins)
