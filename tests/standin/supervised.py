"""A server on this machine under a real supervisord, with a stand-in for SGLang."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specctl.config.model import HostConfig, ServerConfig, SshConfig, Supervisor, ThresholdPolicy
from specctl.host.local import LocalHost
from specctl.service.factory import service_for
from specctl.service.protocol import Service, Unit
from specctl.service.unit import unit_for
from standin.installed import install_release


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def until(what: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.05)


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


SPEC = (
    *("--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "d"),
    *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
)


class Site:
    """One root on this machine with one server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.server = ServerConfig(
            name="main",
            model="m",
            port=free_port(),
            args=SPEC,
            threshold=ThresholdPolicy(disable=4),
        )
        self.config = HostConfig(
            name="here",
            ssh=SshConfig("localhost"),
            servers=(self.server,),
            root=str(root),
            supervisor=Supervisor.SUPERVISOR,
        )
        self.service: Service = service_for(LocalHost("here"), self.config, self.server)

    def unit(self, **env: str) -> Unit:
        server = replace(self.server, env={f"STANDIN_{k.upper()}": v for k, v in env.items()})
        return unit_for(self.config, server)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root whose supervisor is the one of this environment (its own venv is made in another test)."""
    # a UNIX socket's path has little room, pytest's folders are long
    # and each package that uses this fixture gets a root of its own
    folder = Path(tempfile.mkdtemp(prefix="sv", dir=tmp_path_factory.getbasetemp().parent))
    install_release(folder, "main")
    bin_ = folder / "supervisor/venv/bin"
    bin_.mkdir(parents=True)
    # its Python is what the host's own undo calls supervisorctl with
    for name, module in (("supervisord", "-m supervisor.supervisord "), ("python", "")):
        (bin_ / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module}"$@"\n')
        (bin_ / name).chmod(0o755)
    yield folder
    pid_file = folder / "supervisor/supervisord.pid"
    if pid_file.exists():
        os.kill(int(pid_file.read_text()), 15)
        until(lambda: not pid_file.exists())


@pytest.fixture
def site(root: Path) -> Iterator[Site]:
    made = Site(root)
    yield made
    made.service.uninstall()
    (root / "servers/main/server.log").unlink(missing_ok=True)
