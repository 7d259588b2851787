"""Look at what was installed, with the release's own Python.

params: op, and
  check: venv, version, files {path below site-packages: sha256}, import_timeout_s
  site: (which folders this Python imports packages from)
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import site
import subprocess
import sys
import sysconfig
from typing import Any

from specctl.release.onhost.common import sha256_of

sys.dont_write_bytecode = True  # an adopted environment must not get one new file


def check(params: dict[str, Any]) -> dict[str, Any]:
    """Every difference between what is on the host and what was built; an empty list when there is none."""
    problems: list[dict[str, str]] = []
    venv = os.path.realpath(params["venv"])
    purelib = sysconfig.get_paths()["purelib"]
    if not os.path.realpath(purelib).startswith(venv + os.sep):
        problems.append({"what": "python", "expected": venv, "seen": purelib})
    try:
        version = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        version = "absent"
    if version != params["version"]:
        problems.append({"what": "version of sglang", "expected": params["version"], "seen": version})
    spec = importlib.util.find_spec("sglang")
    origin = spec.origin if spec and spec.origin else "absent"
    if not os.path.realpath(origin).startswith(os.path.realpath(purelib) + os.sep):
        # an editable checkout or a path file of the adopted environment won over ours
        problems.append({"what": "where sglang is imported from", "expected": purelib, "seen": origin})
    for name, expected in sorted(params["files"].items()):
        path = os.path.join(purelib, name)
        seen = sha256_of(path) if os.path.isfile(path) else "absent"
        if seen != expected:
            problems.append({"what": path, "expected": expected, "seen": seen})
    if not problems:
        problems += imports(params)
    return {"problems": problems, "checked": len(params["files"]), "origin": origin}


def imports(params: dict[str, Any]) -> list[dict[str, str]]:
    code = "import sglang.version, sys; print(sglang.version.__version__)"
    argv = [sys.executable, "-I", "-B", "-c", code]
    if importlib.util.find_spec("sglang.version") is None:
        argv[-1] = "import sglang"
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=params["import_timeout_s"],
        )
    except subprocess.TimeoutExpired:
        return [
            {
                "what": "import sglang",
                "expected": "done",
                "seen": f"still at it after {params['import_timeout_s']} s",
            }
        ]
    if done.returncode != 0:
        tail = done.stdout.decode("utf-8", "replace").strip().splitlines()[-8:]
        return [{"what": "import sglang", "expected": "exit 0", "seen": "\n".join(tail)}]
    return []


def folders() -> dict[str, Any]:
    """The folders of an environment that hold its packages."""
    paths = sysconfig.get_paths()
    found = []
    for path in (paths["purelib"], paths["platlib"], *site.getsitepackages()):
        if os.path.isdir(path) and path not in found:
            found.append(path)
    return {"folders": found, "prefix": sys.prefix, "version": list(sys.version_info[:3])}


def main(params: dict[str, Any]) -> dict[str, Any]:
    return check(params) if params["op"] == "check" else folders()
