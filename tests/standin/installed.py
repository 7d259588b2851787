"""A stand-in distribution installed the way a release is, for tests on this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from specctl.build.distribution import Distribution

from .build import make_standin_distribution


def install_release(root: Path, server: str, version: str = "0.5.9+specctl.1", **knobs: Any) -> Distribution:
    """Make a release of this version with a venv and dist.json, and point the server's `current` at it.

    The same layout as a deploy leaves behind, without its lock, journal and gate.
    """
    release = root / "releases" / f"{version}-0badcafe"  # a release id as a deploy makes it
    dist = make_standin_distribution(root / "dists" / version, version, **knobs)
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    quiet: dict[str, Any] = {"check": True, "capture_output": True}
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(release / "venv")], **quiet)
    python, wheel = release / "venv/bin/python", root / "dists" / version / dist.wheel
    subprocess.run([uv, "pip", "install", "-q", "--no-index", "--python", str(python), str(wheel)], **quiet)
    dist.write(release)
    folder = root / "servers" / server
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / "current"
    current.unlink(missing_ok=True)
    current.symlink_to(Path("../../releases") / release.name)
    return dist
