"""Runs on the host: which sglang the server's own interpreter would import, and the hashes of its files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from typing import Any

ASK = """
import importlib.metadata, importlib.util, json
spec = importlib.util.find_spec("sglang")
try:
    version = importlib.metadata.version("sglang")
except Exception:
    version = None
print(json.dumps({"origin": spec.origin if spec else None, "version": version}))
"""


def imported(params: dict[str, Any]) -> dict[str, Any]:
    """Where `import sglang` would come from in the server's folder and environment; imports nothing."""
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": os.environ.get("HOME", "/"),
        **params["env"],
    }
    try:
        done = subprocess.run(
            [params["python"], "-B", "-c", ASK],
            cwd=params["cwd"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        return dict(json.loads(done.stdout.decode().splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired) as exc:
        return {"error": str(exc)[:500]}
    except (ValueError, IndexError):
        return {"error": done.stderr.decode("utf-8", "replace")[-500:] or "it printed nothing"}


def sha256(path: str) -> str | None:
    """None when the file cannot be read."""
    try:
        with open(path, "rb") as handle:
            digest = hashlib.sha256()
            for block in iter(lambda: handle.read(1 << 20), b""):
                digest.update(block)
        return digest.hexdigest()
    except OSError:
        return None


def mentions(path: str, token: str) -> bool:
    try:
        with open(path, "rb") as handle:
            return token.encode() in handle.read()
    except OSError:
        return False


def age_of_process(pid: int) -> float | None:
    """Seconds since the process started; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            ticks = int(handle.read().rsplit(")", 1)[1].split()[19])
        with open("/proc/uptime", encoding="ascii") as handle:
            return float(handle.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def age_of_link(path: str) -> float | None:
    """Seconds since a symbolic link was made; None when it is none."""
    try:
        return time.time() - os.lstat(path).st_mtime if os.path.islink(path) else None
    except OSError:
        return None


def look(params: dict[str, Any]) -> dict[str, Any]:
    """params: python, cwd, env, release (folder that `sglang` must come from), current (the link), pid, files
    (paths below site-packages), worker_files, token."""
    found = imported(params)
    origin = found.get("origin")
    if not origin:
        return {**found, "files": {}, "hooked": []}
    site = os.path.dirname(os.path.dirname(os.path.realpath(origin)))
    return {
        **found,
        "site": site,
        "inside": site.startswith(os.path.realpath(params["release"]) + os.sep),
        "release": os.path.basename(os.path.realpath(params["current"])),
        "files": {name: sha256(os.path.join(site, name)) for name in params["files"]},
        "hooked": [n for n in params["worker_files"] if mentions(os.path.join(site, n), params["token"])],
        "process_age": age_of_process(int(params["pid"])) if params["pid"] else None,
        "link_age": age_of_link(params["current"]),
    }


if __name__ == "__main__":
    print(json.dumps(look(globals()["params"])))
