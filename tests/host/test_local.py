"""The operator's own machine keeps the contract of a host."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from specctl.host.errors import HostTimeout
from specctl.host.local import LocalHost
from specctl.host.protocol import Host

from .contract import HostContract


class TestLocalHost(HostContract):
    @pytest.fixture
    def host(self) -> Host:
        return LocalHost("local", command_timeout_s=20)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        (tmp_path / "host").mkdir()
        return str(tmp_path / "host")


def test_a_deadline_kills_the_children_too(tmp_path: Path) -> None:
    with pytest.raises(HostTimeout):
        LocalHost("local").run(
            ["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; wait"],
            timeout_s=0.5,
        )
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_the_environment_of_the_operator_does_not_leak_into_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PYTHONPATH", "/nowhere")
    assert "/nowhere" not in str(
        LocalHost("local").script("import json, sys\nprint(json.dumps(sys.path))", {})
    )
