"""Two operators at once, with clocks an hour apart: one wins each host, the other is told by whom."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from config.builders import make_server
from standin.build import make_standin_distribution

from specctl.exits import ExitCode
from specctl.release.clock import Operator
from specctl.release.engine import Engine
from specctl.release.fleet import Fleet
from specctl.release.makers import deploy_maker
from specctl.release.result import HostResult, Outcome, overall
from specctl.release.source import SourceFolder
from specctl.release.state import HostState, LockInfo

from .simulation import SimFleet, Temper

HOUR = timedelta(hours=1)
PATIENCE_S = 30.0  # a loaded machine is slow; nothing here takes a second


class Watch:
    """A clock that is wrong by so much, and hardly sleeps."""

    def __init__(self, wrong_by: timedelta = timedelta()) -> None:
        self.wrong_by, self.ahead = wrong_by, 0.0
        self.guard = threading.Lock()

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + self.wrong_by

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        time.sleep(0.001)
        with self.guard:
            self.ahead += seconds


class Desk:
    """One operator with a distribution of their own, at a machine whose clock is wrong."""

    def __init__(self, fleet: SimFleet, folder: Path, who: str, number: int, wrong_by: timedelta) -> None:
        ports = fleet.ports()
        operator = Operator(who, f"desk-{who}", os.getpid(), f"boot-of-{who}")
        self.who, self.clock = who, Watch(wrong_by)
        self.engine = Engine(replace(ports, operator=operator, clock=self.clock))
        make_standin_distribution(folder / who, f"0.5.9+specctl.{number}")
        self.make = deploy_maker(self.engine.ports, SourceFolder(folder / who))
        self.configs = {config.name: config for config in fleet.configs()}
        self.results: dict[str, HostResult] = {}
        self.has: dict[str, threading.Event] = {name: threading.Event() for name in self.configs}

    def deploy(self, hosts: list[str], max_fail: int = 9) -> ExitCode:
        def work(name: str) -> HostResult:
            try:
                result = self.engine.run(
                    self.configs[name], self.make, command="deploy", what=f"deploy for {self.who}"
                )
                self.results[name] = result
                return result
            finally:
                self.has[name].set()

        return overall(Fleet(max_fail=max_fail).run(hosts, str, work))


def fleet_of(folder: Path, monkeypatch: pytest.MonkeyPatch, names: str) -> SimFleet:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "sync", lambda: None)
    clock: Any = Watch()
    return SimFleet(folder / "hosts", make_server(), {name: Temper() for name in names.split()}, clock)


def together(*calls: Callable[[], object]) -> None:
    """Run these at the same moment, to their ends."""
    barrier = threading.Barrier(len(calls))

    def call(what: Callable[[], object]) -> None:
        barrier.wait()
        what()

    threads = [threading.Thread(target=call, args=(what,)) for what in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def hold_until_the_other_knows(desks: tuple[Desk, Desk], shared: set[str]) -> None:
    """Who has a lock keeps it until the other one has met it: so they always meet."""
    for mine, other in (desks, desks[::-1]):

        def on_step(host: str, action: Any, event: str, other: Desk = other) -> None:
            if host in shared and event == "start":
                assert other.has[host].wait(PATIENCE_S)

        mine.engine.on_step = on_step


def state(desk: Desk, name: str) -> HostState:
    with desk.engine.surveyor(desk.configs[name]) as surveyor:
        return surveyor.state()


@pytest.mark.parametrize("ada_wrong", [-HOUR, HOUR], ids=["behind", "ahead"])
@pytest.mark.parametrize("attempt", range(3))
def test_overlapping_groups_are_shared_out_host_by_host_and_nothing_is_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ada_wrong: timedelta, attempt: int
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch, "h1 h2 h3")
    ada = Desk(fleet, tmp_path, "ada", 1, ada_wrong)
    bob = Desk(fleet, tmp_path, "bob", 2, timedelta())
    hold_until_the_other_knows((ada, bob), {"h2"})
    codes = {}
    together(
        lambda: codes.update(ada=ada.deploy(["h1", "h2"])), lambda: codes.update(bob=bob.deploy(["h2", "h3"]))
    )
    won, lost = (ada, bob) if ada.results["h2"].outcome is Outcome.DONE else (bob, ada)
    assert won.results["h2"].outcome is Outcome.DONE, (ada.results, bob.results)
    assert lost.results["h2"].outcome is Outcome.LOCKED
    assert codes == {won.who: ExitCode.OK, lost.who: ExitCode.LOCKED}
    assert ada.results["h1"].outcome is bob.results["h3"].outcome is Outcome.DONE
    for name, desk in {"h1": ada, "h2": won, "h3": bob}.items():
        seen = state(desk, name)
        assert seen.lock is None
        assert seen.pending is None
        number = 1 if desk is ada else 2
        assert str(seen.server("main").current).startswith(f"0.5.9+specctl.{number}-")
        assert [r.complete for r in seen.releases.values()] == [True]  # not one file of the loser's


def test_who_loses_reads_who_for_what_and_since_when_whatever_the_clocks_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch, "h1")
    ada = Desk(fleet, tmp_path, "ada", 1, -HOUR)
    bob = Desk(fleet, tmp_path, "bob", 2, timedelta())

    def on_step(host: str, action: Any, event: str) -> None:
        bob.has["h1"].is_set() or bob.deploy(["h1"])

    ada.engine.on_step = on_step
    assert ada.deploy(["h1"]) is ExitCode.OK
    error = bob.results["h1"].error
    assert error is not None
    assert error.exit_code is ExitCode.LOCKED
    assert "ada on desk-ada" in error.message
    assert error.context["for"] == "deploy for ada"
    assert error.context["held"].endswith("s by the host's clock")  # seconds, not the hour between the clocks
    assert error.context["since"].endswith("by the clock of desk-ada")


def test_who_comes_second_replaces_the_whole_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch, "h1")
    ada = Desk(fleet, tmp_path, "ada", 1, HOUR)
    bob = Desk(fleet, tmp_path, "bob", 2, timedelta())
    assert ada.deploy(["h1"]) is ExitCode.OK
    assert bob.deploy(["h1"]) is ExitCode.OK
    record = state(bob, "h1").server("main")
    assert [g.by for g in record.goods] == ["ada@desk-ada", "bob@desk-bob"]
    assert record.before is not None
    assert record.before.by == "ada@desk-ada"  # although her clock says that she came an hour later


def test_a_plan_that_was_agreed_to_is_not_carried_out_after_somebody_elses_deploy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch, "h1")
    ada = Desk(fleet, tmp_path, "ada", 1, HOUR)
    bob = Desk(fleet, tmp_path, "bob", 2, timedelta())
    seen = bob.engine.plan(bob.configs["h1"], bob.make).digest
    ada.deploy(["h1"])
    result = bob.engine.run(bob.configs["h1"], bob.make, command="deploy", what="deploy", seen=seen)
    assert result.error is not None
    assert result.error.code == "plan-changed"
    assert str(state(bob, "h1").server("main").current).startswith("0.5.9+specctl.1-")


AGES = [
    (0.4, "for 0 s by the host's clock"),
    (59.9, "for 59 s by the host's clock"),
    (61.0, "for 1 min 1 s by the host's clock"),
    (3600.0, "for 1 h by the host's clock"),
    (7325.0, "for 2 h 2 min by the host's clock"),
    (None, "from before the host restarted"),
]


@pytest.mark.parametrize(("seconds", "words"), AGES)
def test_the_age_of_a_lock_in_words(seconds: float | None, words: str) -> None:
    info = LockInfo("r", "ada", "desk", "deploy", "2099-01-01T00:00:00Z", 1, "b", age_s=seconds)
    assert info.age == words
    assert "2099" not in info.describe()
