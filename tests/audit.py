"""Ask an advisory database about what specctl depends on, and what it installs.

Use: python -m tests.audit [--where-possible] PATH/TO/pip-audit

Exit code 0: nothing is known against any dependency of specctl. 1: something is. 3: no database could be
reached, so nothing was audited and nothing is claimed; 0 with --where-possible, which CI gives.

pip-audit itself ends with 0 when its service knows none of the packages, as behind an index that is no PyPI.
So its document is read, and a package that it skipped does not count as audited. What a lock pins is
SGLang's choice: findings there are listed, and change no exit code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).parents[1]
LOCKS = REPO / "specctl" / "base" / "locks"
SERVICES = ("osv", "pypi")
OWN = {"specctl"}  # not on PyPI


@dataclass(frozen=True)
class Audit:
    """What a service knows of a set of packages."""

    audited: int
    skipped: tuple[str, ...]
    findings: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether every package was really looked up."""
        return self.audited > 0 and not self.skipped


def read(document: Mapping[str, Any]) -> Audit:
    """pip-audit's JSON document."""
    skipped, findings, audited = [], [], 0
    for package in document["dependencies"]:
        name = str(package["name"])
        if package.get("skip_reason"):
            if name not in OWN:
                skipped.append(name)
            continue
        audited += 1
        for fault in package.get("vulns", ()):
            fixed = ", ".join(fault.get("fix_versions", ())) or "none yet"
            findings.append(f"{name} {package.get('version')}: {fault['id']}, fixed in {fixed}")
    return Audit(audited, tuple(skipped), tuple(findings))


def ask(tool: str, words: Sequence[str]) -> Audit | None:
    """Ask one service after the other; None when none of them could answer for every package."""
    for service in SERVICES:
        argv = [tool, "--service", service, "--format", "json", "--progress-spinner", "off", *words]
        env = {**os.environ, "PIPAPI_PYTHON_LOCATION": sys.executable}
        try:
            done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
            found = read(json.loads(done.stdout))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if found.whole:
            return found
    return None


def main(tool: str, *, where_possible: bool = False) -> int:
    own = ask(tool, ["--local", "--skip-editable"])
    if own is None:
        print("audit: no advisory database can be reached (api.osv.dev, pypi.org): nothing was audited")
        return 0 if where_possible else 3
    print(f"audit: {own.audited} packages of this environment, {len(own.findings)} findings")
    for line in own.findings:
        print(f"  {line}")
    for lock in sorted(LOCKS.glob("*.txt")):
        found = ask(tool, ["--disable-pip", "--require-hashes", "-r", str(lock)])
        told = (
            f"{found.audited} packages, {len(found.findings)} findings" if found else "could not be audited"
        )
        print(f"audit: {lock.name} (SGLang's pins): {told}")
        for line in found.findings if found else ():
            print(f"  {line}")
    return 1 if own.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1], where_possible="--where-possible" in sys.argv[1:-1]))
