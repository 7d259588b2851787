"""What the demo lays out: an environment that already serves, and an inventory of one host and server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from rig import environment
from rig.server import Spec

from .sshd import SshHost

HOST, SERVER = "here", "main"
TIMERS = {"start": 300, "hold": 3, "stop": 20}  # seconds; a loaded machine with two cores starts slowly


def make_serving(folder: Path) -> None:
    """An environment as somebody made it by hand: the published SGLang, and what it needs on a CPU."""
    subprocess.run(
        [str(environment.python()), "-m", "venv", "--without-pip", str(folder)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    (packages,) = (environment.HOME / "venv" / "lib").glob("python*/site-packages")
    (target,) = folder.glob("lib/python*/site-packages")
    (target / "serving.pth").write_text(f"{packages}\n{environment.tree('base')}\n")


def inventory(
    folder: Path, ssh: SshHost, port: int, *, worker: str = "v2", threshold: int = 3
) -> dict[str, Any]:
    """The whole document."""
    spec = Spec(worker=worker, algorithm="EAGLE3")
    argv = spec.argv(port)
    args = argv[argv.index("--device") :]
    server = {
        "name": SERVER,
        "model": str(environment.MODELS / "target"),
        "port": port,
        "args": args,
        "threshold": {"disable": threshold, "resume": threshold - 1, "resume_steps": 3},
        "timers": TIMERS,
        "env": {
            **spec.environment(),
            "PYTHONPATH": str(environment.SHIMS),
            # compiled modules are kept beside the adopted environment: nothing is written into it
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(environment.HOME / "pycache"),
        },
    }
    host = {
        "address": "127.0.0.1",
        "ssh": {
            "user": ssh.user,
            "port": ssh.port,
            "identity_file": str(ssh.key),
            "identities_only": True,
            "known_hosts": str(ssh.known_hosts),
            "config_file": "none",
            "jumps": "none",
        },
        "root": str(folder / "root"),
        "supervisor": "supervisor",
        "python": getattr(sys, "_base_executable", sys.executable),
        "target": "cpu",
        "environment": "adopted",
        "adopt": str(folder / "serving"),
        "wheelhouse": str(environment.HOME / "wheels"),
        "servers": [server],
    }
    return {"hosts": {HOST: host}}


def write(path: Path, document: dict[str, Any]) -> None:
    """Replace the inventory."""
    scratch = path.with_suffix(".part")
    scratch.write_text(yaml.safe_dump(document, sort_keys=False, width=100))
    scratch.replace(path)
