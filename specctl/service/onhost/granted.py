"""Runs on the host, as the login user: is everything there that root has to set up? Changes nothing."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import stat
import subprocess
from typing import Any

JOURNALS = ("/var/log/journal/*/system.journal", "/run/log/journal/*/system.journal")


def wrong_with(path: str, sha256: str) -> str:
    """What is wrong with a file of root's; "" when nothing is."""
    try:
        status = os.lstat(path)
        with open(path, "rb") as handle:
            seen = hashlib.sha256(handle.read()).hexdigest()
    except OSError as error:
        return "is not there" if error.errno == 2 else os.strerror(error.errno or 0)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o022:
        return "is not root's alone"
    return "" if seen == sha256 else "is not what this inventory needs"


def may(argv: list[str]) -> bool:
    """Whether sudo would run exactly this without a password; it is not run."""
    try:
        done = subprocess.run(
            ["sudo", "-n", "-l", "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def main(params: dict[str, Any]) -> dict[str, Any]:
    """params: files {path: sha256}, commands [argv]. Returns files {path: what is wrong}, refused [argv],
    journal (whether the system's journal can be read)."""
    wrong = {path: wrong_with(path, sha256) for path, sha256 in sorted(params["files"].items())}
    journals = [path for pattern in JOURNALS for path in glob.glob(pattern)]
    return {
        "files": {path: text for path, text in wrong.items() if text},
        "refused": [argv for argv in params["commands"] if not may(argv)],
        "journal": any(os.access(path, os.R_OK) for path in journals),
    }


if __name__ == "__main__":
    print(json.dumps(main(globals()["params"])))
