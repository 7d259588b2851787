"""What the steps hand on to each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rig.client import Client

from . import site
from .promises import Promises
from .screen import Screen
from .sshd import SshHost

MARKER = "Dynamic speculation disable enabled"


@dataclass
class Cast:
    """One run of the demo: its folder, its screen, its host, and what was promised so far."""

    folder: Path
    screen: Screen
    ssh: SshHost
    port: int
    promises: Promises = field(default_factory=Promises)
    releases: dict[str, str] = field(default_factory=dict)  # step -> release that serves after it
    threshold: int = 3

    @property
    def client(self) -> Client:
        return Client(self.port)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def log(self) -> Path:
        return self.root / "servers" / site.SERVER / "server.log"

    def current(self) -> str:
        """The release that `current` points to, as the host's file system says."""
        link = self.root / "servers" / site.SERVER / "current"
        return link.readlink().name if link.is_symlink() else "none"

    def inventory(self, **changes: Any) -> None:
        """Write hosts.yaml anew."""
        document = site.inventory(self.folder, self.ssh, self.port, threshold=self.threshold, **changes)
        site.write(self.folder / "hosts.yaml", document)

    def marker(self) -> str:
        """The newest marker in the server's own log."""
        lines = [x for x in self.log.read_text("utf-8", "replace").splitlines() if MARKER in x]
        return lines[-1] if lines else "no marker"

    def serves(self) -> str:
        """What answers on the port, by its own word, with a generation that is not empty."""
        body = {"text": "t5 t77", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
        answer = self.client.json("/generate", body)
        version = self.client.json("/server_info")["version"]
        return f"{version}, text {json.dumps(answer['text'][:40])}" if answer["text"] else "an empty text"


Step = tuple[str, Callable[[Cast], None]]


def fields_of(marker: str) -> Mapping[str, str]:
    """The key=value fields of a marker line; empty when it is none."""
    _, found, rest = marker.partition(MARKER + ": ")
    return dict(part.split("=", 1) for part in rest.split() if "=" in part) if found else {}
