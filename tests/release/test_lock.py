"""The lock of a host: one winner, a name on it, stale only by age and a probe."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from specctl.exits import ExitCode
from specctl.host.local import LocalHost
from specctl.release.clock import Operator
from specctl.release.errors import LockDenied, LockHeld, LockLost
from specctl.release.lock import HostLock, hint_for, is_stale
from specctl.release.remote import RUN_VARIABLE, Remote
from specctl.release.state import LockInfo

HERE = Operator.here()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "root"


@pytest.fixture
def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def lock(root: Path, run: str = "r1", pid: int | None = None, where: str = "desk") -> HostLock:
    boot = HERE.boot if where == "desk" else "another-boot"
    operator = Operator("ada", where, os.getpid() if pid is None else pid, boot)
    return HostLock(Remote(LocalHost("h1"), str(root), run), operator, "deploy 1", "2026-01-01T00:00:00Z")


def expire(root: Path) -> None:
    path = root / "lock" / "lease.json"
    lease = json.loads(path.read_text())
    path.write_text(json.dumps({**lease, "until": 0.0}))


def test_a_held_lock_names_its_holder_and_is_exit_5(root: Path) -> None:
    lock(root).acquire(step="gate main")
    with pytest.raises(LockHeld) as caught:
        lock(root, "r2").acquire()
    assert caught.value.exit_code is ExitCode.LOCKED
    assert "ada on desk" in caught.value.message
    assert caught.value.context["for"] == "deploy 1"
    assert caught.value.context["at"] == "gate main"


def test_of_two_that_race_one_wins(root: Path) -> None:
    root.mkdir()
    won: list[str] = []
    start = threading.Barrier(4)

    def race(name: str) -> None:
        mine = lock(root, name)
        start.wait()
        try:
            mine.acquire()
            won.append(name)
        except LockHeld:
            pass

    threads = [threading.Thread(target=race, args=(f"r{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    held = lock(root).look()
    assert held is not None
    assert held.run == won[0]


def test_of_two_that_race_for_a_stale_lock_one_wins(root: Path, dead_pid: int) -> None:
    lock(root, "dead", pid=dead_pid).acquire()
    expire(root)
    won: list[str] = []
    start = threading.Barrier(4)

    def race(name: str) -> None:
        mine = lock(root, name)
        start.wait()
        try:
            mine.acquire()
            won.append(name)
        except LockHeld:
            pass

    threads = [threading.Thread(target=race, args=(f"r{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_permission_denied_is_not_held_by_somebody(root: Path) -> None:
    # root may write anywhere, but not below a file
    root.parent.joinpath("file").write_text("")
    with pytest.raises(LockDenied) as caught:
        lock(root.parent / "file" / "root").acquire()
    assert caught.value.exit_code is ExitCode.FAILED
    assert "Not a directory" in caught.value.message


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EACCES, "write access"),
        (errno.EPERM, "write access"),
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EROFS, "dmesg"),
        (errno.ENOTDIR, "another root"),
    ],
)
def test_a_lock_that_cannot_be_made_says_what_to_do_about_the_reason(number: int, hint: str) -> None:
    assert hint in hint_for(f"{os.strerror(number)}: /opt/specctl/lock")


def test_a_holder_in_time_is_not_stale_even_when_its_process_is_gone(root: Path, dead_pid: int) -> None:
    lock(root, "dead", pid=dead_pid).acquire(lease_s=300)
    with pytest.raises(LockHeld) as caught:
        lock(root, "r2").acquire()
    assert "promised" in caught.value.context["why it counts"]


def test_an_overdue_holder_whose_process_lives_here_is_not_stale(root: Path) -> None:
    lock(root, "alive").acquire()
    expire(root)
    with pytest.raises(LockHeld) as caught:
        lock(root, "r2").acquire()
    assert "alive on this machine" in caught.value.context["why it counts"]


def test_an_overdue_holder_is_not_stale_while_a_process_of_its_run_is_alive_on_the_host(
    root: Path, dead_pid: int
) -> None:
    lock(root, "dead", pid=dead_pid).acquire()
    expire(root)
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_VARIABLE: "dead"})
    try:
        with pytest.raises(LockHeld) as caught:
            lock(root, "r2").acquire()
        assert str(child.pid) in caught.value.context["why it counts"]
    finally:
        child.kill()
        child.wait()
    broke = lock(root, "r2").acquire()
    assert broke is not None
    assert broke.run == "dead"


@pytest.mark.parametrize("where", ["desk", "elsewhere"])
def test_a_dead_and_overdue_holder_is_taken_over_and_told(root: Path, dead_pid: int, where: str) -> None:
    lock(root, "dead", pid=dead_pid, where=where).acquire()
    expire(root)
    mine = lock(root, "r2")
    broke = mine.acquire()
    assert broke is not None
    assert broke.run == "dead"
    assert mine.held


def test_a_lease_from_before_the_hosts_restart_is_over(root: Path, dead_pid: int) -> None:
    lock(root, "dead", pid=dead_pid).acquire(lease_s=3000)
    path = root / "lock" / "lease.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "an-earlier-one"}))
    assert lock(root, "r2").acquire() is not None


def test_a_lock_that_was_taken_away_is_noticed_at_the_next_step(root: Path) -> None:
    mine = lock(root)
    mine.acquire()
    holder = mine.look()
    assert holder is not None
    lock(root, "r2").break_it(holder)
    lock(root, "r3").acquire()
    with pytest.raises(LockLost) as caught:
        mine.renew("flip", 60)
    assert "ada on desk" in caught.value.context["held now by"]
    mine.release()
    still = lock(root).look()
    assert still is not None
    assert still.run == "r3"  # a loser's release takes nothing from the winner


def test_breaking_names_whose_lock_is_meant(root: Path) -> None:
    first = lock(root)
    first.acquire()
    holder = first.look()
    assert holder is not None
    first.release()
    lock(root, "r2").acquire()
    lock(root, "r9").break_it(holder)  # what was looked at is gone; another holds it now
    assert lock(root).look() is not None


def test_the_same_run_may_take_its_lock_again_after_a_lost_answer(root: Path) -> None:
    lock(root).acquire()
    assert lock(root).acquire() is None


def info(**changes: Any) -> LockInfo:
    fields = {"run": "r", "who": "ada", "where": "x", "what": "y", "since": "", "pid": 1, "boot": "b"}
    return LockInfo(**{**fields, "overdue_s": 5.0, **changes})


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ({}, True),
        ({"overdue_s": -1.0}, False),
        ({"processes": (7,)}, False),
        ({"boot": HERE.boot, "pid": os.getpid()}, False),
        ({"boot": "", "pid": 0}, True),
    ],
)
def test_stale_needs_age_and_no_sign_of_life(changes: dict[str, Any], stale: bool) -> None:
    assert is_stale(info(**changes), HERE) is stale


def test_the_host_looks_again_before_it_hands_over_a_lock_that_was_stale_a_moment_ago(
    root: Path, dead_pid: int
) -> None:
    lock(root, "dead", pid=dead_pid).acquire()
    expire(root)
    mine = lock(root, "r2")
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_VARIABLE: "dead"})
    try:
        answer = mine._call("take", step="start", lease_s=60, holder_gone=["dead"])
    finally:
        child.kill()
        child.wait()
    assert answer["taken"] is False
