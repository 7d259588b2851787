"""Look at what was installed, with the release's own Python.

params: op, and
  check: venv, version, files {path below site-packages: sha256}, import_timeout_s
  site: (which folders this Python imports packages from)
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import site
import subprocess
import sys
import sysconfig
from typing import Any

from specctl.release.onhost.common import sha256_of

sys.dont_write_bytecode = True  # an adopted environment must not get one new file


def check(params: dict[str, Any]) -> dict[str, Any]:
    """Every difference between what is on the host and what was built; an empty list when there is none.

    When nothing differs and it still cannot be imported, `broken` says why and `missing` what it lacks.
    """
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
    broken = "" if problems else imports(params)
    answer = {"problems": problems, "broken": broken, "missing": missing() if broken else []}
    return {**answer, "checked": len(params["files"]), "origin": origin}


def imports(params: dict[str, Any]) -> str:
    """The end of what an import of SGLang printed; "" when it succeeds."""
    argv = [sys.executable, "-I", "-B", "-c", "import sglang"]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=params["import_timeout_s"],
        )
    except subprocess.TimeoutExpired:
        return f"still at it after {params['import_timeout_s']} s"
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()[-8:]
    return "\n".join(lines or [f"exit code {done.returncode}"]) if done.returncode else ""


def missing() -> list[str]:
    """Packages that SGLang asks for, whatever the platform, and that are not there."""
    names = []
    for line in importlib.metadata.requires("sglang") or []:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if name and ";" not in line:
            try:
                importlib.metadata.version(name.group())
            except importlib.metadata.PackageNotFoundError:
                names.append(name.group())
    return names


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
