"""The name of a release: the same inputs give the same name, any other input another one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from specctl.build.distribution import Distribution
from specctl.config.model import EnvironmentKind, HostConfig
from specctl.errors import UsageError


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def lock_file(distribution: Distribution, host: HostConfig) -> str:
    """The name of the lock that this host installs, in the distribution's folder.

    Raises:
        UsageError: the distribution holds no lock for the host's target.
    """
    name = distribution.locks.get(host.target.value)
    if name is None:
        raise UsageError(
            f"distribution {distribution.version} has no lock for target {host.target.value!r}",
            code="no-lock",
            context={"host": host.name, "locks": ", ".join(sorted(distribution.locks)) or "none"},
            hint=f"build it again with a lock for {host.target.value}",
        )
    return name


def release_id(distribution: Distribution, host: HostConfig, lock_sha256: str | None) -> str:
    """`<version>-<8 hex>` over everything that decides what is in the release's environment.

    Args:
        lock_sha256: of the lock that is installed; None for an adopted environment, which uses none.
    """
    adopted = host.environment is EnvironmentKind.ADOPTED
    parts = {
        "wheel": distribution.wheel_sha256,
        "lock": None if adopted else lock_sha256,
        "environment": host.environment.value,
        "target": None if adopted else host.target.value,
        "python": None if adopted else host.python,
        "adopt": host.adopt if adopted else None,
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return f"{distribution.version}-{digest[:8]}"
