"""Secrets that are planted in every way an inventory knows, and the search for them in every place."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .deploying import REPO, Site
from .machine import Machine

# Signs that a shell, systemd, YAML or JSON would change or stumble over. A key of an HTTP
# header holds no blank. Each has a middle that survives any quoting: that is what is searched for.
TOKEN, KEY, ADMIN, OTHER = "planted-hf", "planted-key", "planted-admin", "planted-other"
VALUES = {
    TOKEN: f"hf_$(id)`x`'{TOKEN}\"\\ %n $HOME #;",
    KEY: f"k'\"{KEY}%s$1\\",
    ADMIN: f"a:{ADMIN}&|",
    OTHER: f"{OTHER} two words",
}


def plant(site: Site, server: dict[str, Any]) -> None:
    """Give a server a secret of each kind from each source: environment, file and command."""
    sources = site.folder / "sources"
    sources.mkdir(exist_ok=True)
    for file, name in (("token", TOKEN), ("admin", ADMIN)):
        (sources / file).write_text(VALUES[name] + "\n")
        (sources / file).chmod(0o600)
    site.env["SOURCE_KEY"], site.env["SOURCE_OTHER"] = VALUES[KEY], VALUES[OTHER]
    server["secrets"] = {
        "HF_TOKEN": {"file": str(sources / "token")},
        "OTHER_TOKEN": {"env": "SOURCE_OTHER"},
        "--api-key": {"env": "SOURCE_KEY"},
        "--admin-api-key": {"command": f"cat {sources / 'admin'}"},
    }


@dataclass
class Watch:
    """Every command line that was seen on this machine; the hosts' processes are among them."""

    seen: set[str] = field(default_factory=set)
    looks: int = 0

    def look(self) -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.seen.add(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue
        self.looks += 1


@contextmanager
def watching_processes() -> Iterator[Watch]:
    """Sample all command lines while the block runs, as `ps` would show them."""
    watch, over = Watch(), threading.Event()

    def loop() -> None:
        while not over.wait(0.02):
            watch.look()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()


def found_in(text: str) -> list[str]:
    """The names of planted secrets that a text holds."""
    return [name for name in VALUES if name in text]


def files_here(folder: Path, leave_out: Path) -> dict[str, list[str]]:
    """Files below a folder of this machine that hold a planted secret."""
    hits = {}
    for path in folder.rglob("*"):
        if path.is_file() and leave_out not in path.parents:
            names = found_in(path.read_bytes().decode("utf-8", "replace"))
            if names:
                hits[str(path)] = names
    return hits


def files_there(machine: Machine, *leave_out: str) -> dict[str, str]:
    """Files of a whole host that hold a planted secret -> their mode, the journal apart."""
    folders = " ".join(f"--exclude-dir={name}" for name in ("proc", "sys", "dev", *leave_out))
    listed = machine.shell(f"grep -rlaF planted- {folders} / 2>/dev/null", check=False).splitlines()
    return {path: machine.run("stat", "-c", "%a", path).strip() for path in listed}


def journal(machine: Machine) -> list[str]:
    """Every line of the host's journals that holds a planted secret, all users' units, all fields."""
    text = machine.shell("journalctl --no-pager --all -o export | grep -aF planted-", check=False)
    return text.splitlines()


def crash_in(folder: Path, module: str, function: str) -> str:
    """A value for PYTHONPATH with which a function of specctl has a bug, secrets in its locals."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        f"import {module} as _m\n"
        "_real = getattr(_m, %r)\n" % function + "def _broken(*values, **more):\n"
        "    kept = _real(*values, **more)\n"
        "    raise KeyError('a bug, for the test')\n"
        f"_m.{function} = _broken\n"
    )
    return f"{folder}{os.pathsep}{REPO}"
