"""Lost links, killed operators and locks, on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from release.faulty import FaultyHost
from release.sandbox import Sandbox
from specctl.config.model import HostConfig, ThresholdPolicy
from specctl.host.errors import Unreachable
from specctl.host.local import LocalHost
from specctl.host.protocol import Host
from specctl.release.clock import Operator
from specctl.release.errors import ReleaseError, UndoneByHost
from specctl.release.journal import Journal
from specctl.release.layout import Layout
from specctl.release.remote import Remote
from specctl.release.result import Outcome
from specctl.release.stepping import persist


class Killed(BaseException):
    """What a SIGKILL is to the code: nothing runs after it, not even a way back."""


def dead_operator() -> Operator:
    child = subprocess.Popen(["true"])
    child.wait()
    return Operator("ada", "desk", child.pid, Operator.here().boot)


def expire(sandbox: Sandbox) -> None:
    """As if the promised word had not come for a long time."""
    path = sandbox.root / "lock" / "lease.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "until": 0.0}))


def kill_at(sandbox: Sandbox, dist: Path | None, kind: str, event: str) -> None:
    """A deploy (without a distribution: a rollback) whose operator dies at one step."""
    sandbox.engine.ports = sandbox.ports()
    object.__setattr__(sandbox.engine.ports, "operator", dead_operator())

    def die(host: str, action: object, seen: str) -> None:
        if (getattr(action, "kind", ""), seen) == (kind, event):
            raise Killed

    sandbox.engine.on_step = die  # type: ignore[assignment]
    # the engine gives its lock back even then; a killed process cannot
    release = sandbox.root / "lock"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("specctl.release.lock.HostLock.release", lambda self: None)
        with pytest.raises(Killed):
            _ = sandbox.deploy(dist) if dist else sandbox.rollback()
    assert release.is_dir()
    sandbox.engine.on_step = lambda *_: None  # type: ignore[assignment]
    sandbox.engine.ports = sandbox.ports()


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        pytest.param("push-distribution", "ok", marks=pytest.mark.slow),
        ("install-wheel", "start"),
        pytest.param("mark-complete", "ok", marks=pytest.mark.slow),
        pytest.param("stop", "ok", marks=pytest.mark.slow),
        ("flip", "ok"),
        pytest.param("gate", "ok", marks=pytest.mark.slow),
        ("mark-good", "ok"),
    ],
)
def test_wherever_the_operator_dies_the_next_deploy_goes_on_to_a_proven_release(
    sandbox: Sandbox, kind: str, event: str
) -> None:
    sandbox.deploy(sandbox.dist(1))
    dist = sandbox.dist(2)
    kill_at(sandbox, dist, kind, event)
    expire(sandbox)
    state = sandbox.state()
    assert state.pending is not None
    if event == "ok":  # told before it begins; the journal is written after that
        assert state.pending.step == kind
    result = sandbox.deploy(dist)
    assert result.error is None, result.error.as_dict()
    assert sandbox.version() == "0.5.9+specctl.2"
    after = sandbox.state()
    assert after.pending is None
    assert after.lock is None
    assert after.server("main").proven
    assert sandbox.rollback().outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.1"


def test_after_a_lost_deploy_a_failing_one_still_finds_the_way_back(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    dist = sandbox.dist(2, die_at_start="1")
    kill_at(sandbox, dist, "start", "ok")
    expire(sandbox)
    assert sandbox.current() == sandbox.release(2)
    result = sandbox.deploy(dist)
    assert result.outcome is Outcome.ROLLED_BACK
    assert sandbox.version() == "0.5.9+specctl.1"


def test_after_a_lost_deploy_a_rollback_goes_to_what_worked(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    kill_at(sandbox, sandbox.dist(2), "start", "ok")
    expire(sandbox)
    result = sandbox.rollback()
    assert result.error is None
    assert sandbox.version() == "0.5.9+specctl.1"
    assert sandbox.rollback().error.code == "no-target"  # type: ignore[union-attr]


def test_a_rollback_after_a_deploy_that_was_lost_once_it_had_passed_goes_to_the_release_before(
    sandbox: Sandbox,
) -> None:
    sandbox.deploy(sandbox.dist(1))
    kill_at(sandbox, sandbox.dist(2), "mark-good", "ok")
    expire(sandbox)
    assert sandbox.rollback().error is None
    assert sandbox.version() == "0.5.9+specctl.1"


@pytest.mark.parametrize(
    ("kind", "event"),
    [("check-install", "ok"), ("mark-good", "ok")],
    ids=["before it did anything", "passed"],
)
def test_a_rollback_after_a_lost_rollback_ends_where_the_first_one_was_going(
    sandbox: Sandbox, kind: str, event: str
) -> None:
    sandbox.changes = {"keep_releases": 9}
    for number in (1, 2, 3):
        sandbox.deploy(sandbox.dist(number))
    kill_at(sandbox, None, kind, event)
    expire(sandbox)
    assert sandbox.rollback().error is None
    assert sandbox.version() == "0.5.9+specctl.2"
    assert sandbox.state().pending is None


def test_a_step_that_lost_its_link_is_not_repeated_once_the_host_has_acted(sandbox: Sandbox) -> None:
    """Else the operator's late `stop` would stop the server that the host has just put back."""
    done: list[str] = []

    def step() -> None:
        done.append("step")
        raise Unreachable("the link was lost")

    class Lock:
        held = True

        def renew(self, step: str, lease_s: float) -> None:
            raise UndoneByHost("the host went back by itself")

    with sandbox.engine.surveyor(sandbox.config) as surveyor:
        ctx = sandbox.engine._context(surveyor, Remote(surveyor.host, str(sandbox.root), "r"), Lock())
    with pytest.raises(UndoneByHost):
        persist(ctx, step)
    assert done == ["step"]


def test_a_disk_that_takes_no_journal_does_not_keep_the_old_release_from_serving(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.deploy(sandbox.dist(1))
    send = Journal._send

    def full(self: Journal, record: dict[str, Any], **more: Any) -> Any:
        if ("gate", "failed") in sandbox.steps:
            raise ReleaseError("journal failed on here: OSError: [Errno 28] No space left on device")
        return send(self, record, **more)

    monkeypatch.setattr(Journal, "_send", full)
    result = sandbox.deploy(sandbox.dist(2, die_at_start="1"))
    assert result.outcome is Outcome.ROLLED_BACK
    assert sandbox.version() == "0.5.9+specctl.1"
    assert any("could not be written down" in note for note in result.notes)


def test_a_unit_that_cannot_be_put_back_is_told_though_the_old_release_serves(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.change("main", threshold=ThresholdPolicy(disable=32))

    def fail(host: str, action: Any, event: str) -> None:
        if (action.kind, event) == ("gate", "failed"):
            sandbox.service("main").fail_next["install"] = ReleaseError("no space on /run")

    sandbox.engine.on_step = fail
    result = sandbox.deploy(sandbox.dist(2, die_at_start="1"))
    assert result.outcome is Outcome.ROLLED_BACK
    assert sandbox.version() == "0.5.9+specctl.1"
    assert "install-unit main: no space on /run" in result.state


def test_an_old_release_that_does_not_start_again_is_exit_7(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))

    def fail(host: str, action: Any, event: str) -> None:
        if (action.kind, event) == ("gate", "failed"):
            sandbox.service("main").fail_next["start"] = ReleaseError("the GPU is away")

    sandbox.engine.on_step = fail
    result = sandbox.deploy(sandbox.dist(2, die_at_start="1"))
    assert result.outcome is Outcome.DOWN
    assert "the GPU is away" in result.state


def test_what_a_killed_run_left_half_written_is_gone_after_the_next_deploy(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    gone = dead_operator().pid
    left = [
        sandbox.root / f"pending.json.new-{gone}",
        sandbox.root / "servers" / "main" / f"current.new-{gone}",
        sandbox.root / "releases" / sandbox.release(1) / f".dist.json.receiving-{gone}",
        sandbox.root / "lock.old-1234abcd",
    ]
    for path in left[:3]:
        path.touch()
    left[3].mkdir()
    mine = sandbox.root / f"good.json.new-{os.getpid()}"  # somebody writes it right now
    mine.touch()
    assert sandbox.deploy(sandbox.dist(2)).error is None
    assert [path for path in left if path.exists()] == []
    assert mine.exists()


def test_a_live_lock_is_reported_with_its_holder_and_changes_nothing(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    dist = sandbox.dist(2)
    inside, go = threading.Event(), threading.Event()
    first: list[Outcome] = []

    def hold(host: str, action: object, event: str) -> None:
        if getattr(action, "kind", "") == "gate" and event == "start":
            inside.set()
            assert go.wait(60)

    sandbox.engine.on_step = hold  # type: ignore[assignment]
    thread = threading.Thread(target=lambda: first.append(sandbox.deploy(dist).outcome))
    thread.start()
    assert inside.wait(120)
    try:
        second = sandbox.deploy(sandbox.dist(3))
    finally:
        go.set()
        thread.join()
    assert second.outcome is Outcome.LOCKED
    assert second.error is not None
    assert "ada" in second.error.message
    assert first == [Outcome.DONE]
    assert sandbox.version() == "0.5.9+specctl.2"


def faulty(sandbox: Sandbox, counter: list[int], **faults: object) -> None:
    def connect(config: HostConfig) -> Host:
        return FaultyHost(LocalHost(config.name), counter, **faults)  # type: ignore[arg-type,return-value]

    sandbox.connect = connect


def test_an_answer_that_is_lost_at_any_call_makes_no_step_happen_twice(sandbox: Sandbox) -> None:
    counter = [0]
    # each seventh answer is lost, whatever it was about
    faulty(sandbox, counter, lose=lambda n: n > 6 and n % 7 == 0)
    result = sandbox.deploy(sandbox.dist(1))
    assert result.error is None, result.error.as_dict()
    assert counter[0] > 30
    assert sandbox.version() == "0.5.9+specctl.1"
    sandbox.connect = lambda config: LocalHost(config.name)
    assert sandbox.deploy(sandbox.dist(1)).outcome is Outcome.UNCHANGED


SLOW = pytest.mark.slow


@pytest.mark.parametrize("after", [6, *(pytest.param(n, marks=SLOW) for n in (14, 22)), 30])
def test_a_host_that_is_lost_for_good_is_unreachable_and_the_next_deploy_goes_on(
    sandbox: Sandbox, after: int
) -> None:
    sandbox.deploy(sandbox.dist(1))
    counter = [0]
    dist = sandbox.dist(2)
    faulty(sandbox, counter, dead=lambda n: n > after)
    object.__setattr__(sandbox.engine.ports, "operator", dead_operator())
    result = sandbox.deploy(dist)
    assert result.outcome is Outcome.UNREACHABLE
    assert "the link is lost" in result.state
    sandbox.connect = lambda config: LocalHost(config.name)
    if (sandbox.root / "lock").exists():
        expire(sandbox)
    assert sandbox.deploy(dist).outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.2"


def test_a_reader_in_a_loop_never_misses_current_during_flips(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.deploy(sandbox.dist(2))
    link = sandbox.root / "servers" / "main" / "current"
    stop = threading.Event()
    seen: set[str] = set()
    missing: list[str] = []

    def read() -> None:
        while not stop.is_set():
            try:
                seen.add(link.readlink().name)
                (link / "COMPLETE").read_bytes()
            except OSError as exc:
                missing.append(str(exc))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(3):
            for number in (1, 2):
                with sandbox.engine.surveyor(sandbox.config) as surveyor:
                    Remote(surveyor.host, str(sandbox.root), "r").program(
                        "tree", op="flip", server="main", release=sandbox.release(number), need_complete=True
                    )
    finally:
        stop.set()
        reader.join()
    assert missing == []
    assert seen == {sandbox.release(1), sandbox.release(2)}


def test_half_a_release_is_not_pointed_to_even_when_asked(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    (Path(Layout(str(sandbox.root)).release(sandbox.release(1)).folder) / "COMPLETE").unlink()
    sandbox.service("main").stop(5.0)
    result = sandbox.rollback(to=sandbox.release(1))
    assert result.error is not None
    assert "not complete" in result.error.context["candidates"]


def test_a_host_that_hangs_behind_the_switch_is_left_to_its_own_undo(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    counter = [0]
    hung = threading.Event()
    faulty(sandbox, counter, hang=hung.is_set)
    sandbox.engine.on_step = lambda host, action, event: (  # type: ignore[assignment]
        hung.set() if (action.kind, event) == ("start", "ok") else None
    )
    result = sandbox.deploy(sandbox.dist(2))
    assert result.outcome is Outcome.UNREACHABLE
    assert "goes back to the old release by itself" in result.state


def test_ctrl_c_after_all_has_passed_undoes_nothing(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.engine.on_step = lambda host, action, event: (  # type: ignore[assignment]
        sandbox.engine.cancelled.set() if (action.kind, event) == ("mark-good", "ok") else None
    )
    assert sandbox.deploy(sandbox.dist(2)).outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.2"
    assert sandbox.state().server("main").proven


@pytest.mark.parametrize("step", ["make-venv", "stop", "gate"])
def test_ctrl_c_at_any_step_leaves_the_old_release_serving_and_the_lock_free(
    sandbox: Sandbox, step: str
) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.engine.on_step = lambda host, action, event: (  # type: ignore[assignment]
        sandbox.engine.cancelled.set() if (action.kind, event) == (step, "start") else None
    )
    result = sandbox.deploy(sandbox.dist(2))
    assert result.outcome is Outcome.INTERRUPTED
    assert sandbox.version() == "0.5.9+specctl.1"
    state = sandbox.state()
    assert state.lock is None
    assert state.pending is None
    assert state.releases[sandbox.release(2)].failed is None  # it is not the release's fault


def test_a_failure_while_success_is_written_down_leaves_no_half_truth(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.deploy(sandbox.dist(1))
    before = (sandbox.root / "servers" / "main" / "good.json").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("specctl.release.actions.record.write_state", full)
    result = sandbox.deploy(sandbox.dist(2))
    assert result.outcome is Outcome.ROLLED_BACK
    goods = json.loads((sandbox.root / "servers" / "main" / "good.json").read_text())["goods"]
    assert goods == json.loads(before)["goods"]
    assert sandbox.state().server("main").proven
    assert sandbox.version() == "0.5.9+specctl.1"
