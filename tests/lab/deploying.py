"""specctl as a user runs it against lab hosts: an inventory, a stand-in distribution, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from standin.build import make_standin_distribution

from .lab import Lab

REPO = Path(__file__).parents[2]
THRESHOLD = {"disable": 16, "resume": 14, "resume_steps": 4}
SPECULATION = ["--speculative-algorithm", "EAGLE3"]


@dataclass
class Site:
    """One inventory over lab hosts, with a root and server names that no other test uses."""

    lab: Lab
    folder: Path
    tag: str  # in roots and server names
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def host(self, name: str, **settings: Any) -> None:
        """Add a lab host; `settings` are keys of the inventory."""
        # one second here and there: the stand-in needs no more, and nothing of it compiles
        server = {
            "name": f"{self.tag}-a",
            "port": 31000,
            "model": "/models/none",
            "args": SPECULATION,
            "threshold": THRESHOLD,
            "timers": {"start": 40, "hold": 2, "stop": 10},
        }
        self.hosts[name] = {
            "address": self.lab.machine(name).address,
            "root": f"/srv/app/{self.tag}",
            "servers": [server],
            **settings,
        }

    @property
    def inventory(self) -> Path:
        path = self.folder / "hosts.yaml"
        ssh = {
            "user": "deploy",
            "identity_file": str(self.lab.key),
            "known_hosts": str(self.lab.known_hosts),
            "config_file": "none",
            "connect_timeout": 4,
            "command_timeout": 30,
        }
        document = {"defaults": {"ssh": ssh, "target": "cpu"}, "hosts": self.hosts}
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def dist(self, number: int, **knobs: Any) -> Path:
        folder = self.folder / f"dist-{number}"
        if not folder.exists():
            make_standin_distribution(folder, f"0.5.9+specctl.{number}", **knobs)
        return folder

    def argv(self, verb: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "specctl", *verb.split(), "-i", str(self.inventory), *words]

    def environment(self) -> dict[str, str]:
        state = str(self.folder / "state")
        return {**os.environ, "XDG_STATE_HOME": state, "PYTHONPATH": str(REPO), **self.env}

    def call(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a verb as a process of its own, without a terminal."""
        return subprocess.run(
            self.argv(verb, *words),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
        )

    def json(self, verb: str, *words: str, code: int = 0) -> Any:
        """The JSON document of a verb that must end with `code`."""
        done = self.call(verb, *words, "--json")
        assert done.returncode == code, (
            f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
        return json.loads(done.stdout)

    def deploy(self, number: int, *words: str, code: int = 0, **knobs: Any) -> Any:
        return self.json("deploy", "--dist", str(self.dist(number, **knobs)), "--yes", *words, code=code)

    def start(self, verb: str, *words: str) -> subprocess.Popen[str]:
        """Begin a verb and let it run; its stderr can be read line by line."""
        return subprocess.Popen(
            self.argv(verb, *words),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def version(self, host: str, port: int = 31000) -> str:
        """What serves there, by its own word; "" when nothing answers."""
        code = (
            "import json,urllib.request as u;"
            f"print(json.load(u.urlopen('http://127.0.0.1:{port}/server_info',timeout=5))['version'])"
        )
        return self.lab.machine(host).run("python3", "-c", code, check=False).strip().splitlines()[-1]


def by_host(document: Any) -> dict[str, Any]:
    """The results of a deploy or rollback by host."""
    return {h["host"]: h for h in document["hosts"]}
