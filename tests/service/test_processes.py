"""A stop is over when nothing of the old server is left: no process, no stray, no port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specctl.host.local import LocalHost
from specctl.service import stopping
from specctl.service.errors import StillThere
from specctl.service.onhost import processes
from specctl.service.stopping import await_gone, list_processes

IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
SLEEP = "import time; print('up', flush=True); time.sleep(300)"


@pytest.fixture
def spawn() -> Iterator[Any]:
    """Start Python programs in sessions of their own; ends them afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def gone(**params: Any) -> dict[str, Any]:
    base = {"pids": [], "cgroup": None, "marker": "", "port": None, "deadline_s": 0.5, "grace_s": 2.0}
    return processes.await_gone({**base, **params})


def identity(process: subprocess.Popen[bytes]) -> list[int]:
    return [process.pid, processes.start_ticks(process.pid)]


def test_a_process_that_ignores_sigterm_is_killed_at_the_deadline(spawn: Any) -> None:
    process = spawn(IGNORE + SLEEP)
    process.terminate()
    found = gone(pids=[identity(process)])
    assert found["killed"]
    assert found["left"] == []
    assert process.wait(5) == -signal.SIGKILL


def test_a_process_that_ends_by_itself_is_not_killed(spawn: Any) -> None:
    process = spawn(SLEEP)
    process.terminate()
    assert not gone(pids=[identity(process)], deadline_s=10)["killed"]


def test_another_process_with_a_reused_pid_is_left_alone(spawn: Any) -> None:
    process = spawn(SLEEP)
    pid, ticks = identity(process)
    assert gone(pids=[[pid, ticks - 1]])["left"] == []
    assert process.poll() is None


def test_a_stray_that_left_its_parent_and_group_is_found_by_its_environment(spawn: Any) -> None:
    stray = spawn(IGNORE + SLEEP, SPECCTL_SERVER="specctl-test-stray")
    other = spawn(SLEEP, SPECCTL_SERVER="specctl-test-stray2")
    found = gone(marker="SPECCTL_SERVER=specctl-test-stray")
    assert found["killed"]
    assert stray.wait(5) == -signal.SIGKILL
    assert other.poll() is None


def test_the_tree_of_a_process_holds_children_in_sessions_of_their_own(spawn: Any) -> None:
    child = f"[{sys.executable!r}, '-c', 'import time; time.sleep(300)']"
    parent = spawn(f"import subprocess; p = subprocess.Popen({child}, start_new_session=True); {SLEEP}")
    found = processes.members({"pid": parent.pid})
    assert len(found) == 2
    for pid, _ in found:
        os.kill(pid, signal.SIGKILL)


def test_a_port_that_another_process_holds_is_named_with_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "MARGIN_S", 0.2)
    monkeypatch.setattr(stopping, "GRACE_S", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(StillThere, match=rf"port {port} is still held by pid {os.getpid()} "):
            await_gone(LocalHost("here"), "specctl-x", {}, [], timeout_s=0.1, port=port, sudo=False)


def test_gpu_memory_of_an_old_process_is_waited_for(
    spawn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = spawn(SLEEP)
    pids = [identity(process)]
    process.kill()
    process.wait()
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho {pids[0][0]}\necho 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = gone(pids=pids, grace_s=0.5)
    assert found["gpu"] == [pids[0][0]]
    tool.write_text("#!/bin/sh\necho '[N/A]'\n")
    assert gone(pids=pids)["gpu"] == []


def test_the_whole_round_over_a_host(spawn: Any) -> None:
    process = spawn(SLEEP, SPECCTL_SERVER="specctl-test-round")
    host = LocalHost("here")
    facts = {"cgroup": None, "marker": "SPECCTL_SERVER=specctl-test-round", "pid": process.pid}
    pids = list_processes(host, facts, sudo=False)
    assert pids == [identity(process)]
    process.terminate()
    process.wait()
    outcome = await_gone(host, "specctl-x", facts, pids, timeout_s=5, port=None, sudo=False)
    assert outcome.was_running
    assert not outcome.killed
