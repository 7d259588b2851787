"""Run specctl as an operator does, against the stand-in under supervisor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from standin.supervised import SPEC, Site, healthy, until


def inventory(site: Site, path: Path, extra: str = "", **knobs: str) -> Path:
    """The site as a file, with comments that must survive."""
    env = "".join(f"\n          STANDIN_{k.upper()}: '{v}'" for k, v in knobs.items()) or " {}"
    path.write_text(
        f"""# the lab
hosts:
  here:
    connection: local
    root: {site.root}
    supervisor: supervisor
    servers:
      - name: main # the only one
        model: m
        port: {site.server.port}
        args: {json.dumps([*SPEC])}
        env:{env}
        timers: {{hold: 1, start: 30}}
        threshold:
          disable: 4 # found by hand
{extra}"""
    )
    return path


def specctl(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specctl", *words],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "NO_COLOR": "1", **env},
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def started(site: Site, tmp_path: Path, **knobs: str) -> str:
    """A running server, and the inventory's path."""
    file = str(inventory(site, tmp_path / "hosts.yaml", **knobs))
    site.service.install(site.unit(**knobs))
    site.service.start()
    until(lambda: healthy(site.server.port))
    return file
