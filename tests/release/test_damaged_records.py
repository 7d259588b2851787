"""Records on a host that a crash cut or somebody spoilt: still a state, or an error, and never a crash."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from config.builders import make_server
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standin.build import make_standin_distribution

from specctl.errors import SpecctlError
from specctl.host.local import LocalHost
from specctl.release.clock import Operator, SystemClock
from specctl.release.engine import Engine
from specctl.release.history import read_history
from specctl.release.journal import Journal, parse
from specctl.release.lock import HostLock
from specctl.release.makers import deploy_maker
from specctl.release.onhost import journal as journal_program
from specctl.release.onhost.state import last_step
from specctl.release.remote import Remote
from specctl.release.result import Outcome
from specctl.release.source import SourceFolder
from specctl.release.state import HostState

from .simulation import SimFleet, Temper, run_program
from .test_two_operators import Watch

RUN = "20260101T000000-aaaaaa"


class Here(LocalHost):
    """This machine, with programs run in this process: thousands of them in a few seconds."""

    def script(self, source: str, params: Any, **_: Any) -> object:
        return run_program(source, params)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> tuple[SimFleet, Engine, Any]:
    """One host with a release that serves, and a deploy of another that stopped at its flip."""
    folder = tmp_path_factory.mktemp("damaged")
    watch: Any = Watch()
    fleet = SimFleet(folder / "hosts", make_server(), {"h1": Temper()}, watch)
    engine = Engine(replace(fleet.ports(), clock=watch))
    make_standin_distribution(folder / "dist")
    make = deploy_maker(engine.ports, SourceFolder(folder / "dist"))
    result = engine.run(fleet.configs()[0], make, command="deploy", what="deploy")
    assert result.outcome is Outcome.DONE
    root = Path(fleet.configs()[0].root)
    remote = Remote(Here("h1"), str(root), RUN)
    operator = Operator("ada", "desk", 0, "")
    HostLock(remote, operator, "deploy 2", "2026-01-01T00:00:00Z").acquire()
    mine = Journal(remote, str(root / "journal.jsonl"), SystemClock())
    mine.begin("deploy", "x", operator, {"actions": []})
    mine.start("flip", "main")
    return fleet, engine, make


def files_of(root: Path) -> list[Path]:
    """Every record below the root; not what is installed."""
    found = [p for p in root.rglob("*") if p.is_file() and not p.is_symlink()]
    return sorted(p for p in found if p.suffix not in (".whl", ".txt") and p.name != ".lock-guard")


def look(fleet: SimFleet, engine: Engine, make: Any) -> HostState | None:
    """State, history and the next plan; None when the host's state was refused with an error of ours."""
    (config,) = fleet.configs()
    state = None
    try:
        with engine.surveyor(config) as surveyor:
            state = surveyor.state()
            read_history(surveyor.host, config.root, sudo=False)
            HostLock(Remote(surveyor.host, config.root, "r9"), engine.ports.operator, "x", "t").look()
            make(surveyor)
    except SpecctlError as error:
        assert error.context or error.message  # noqa: PT017 (an error of ours is an answer, too)
    return state


def test_every_record_may_be_cut_anywhere(deployed: tuple[SimFleet, Engine, Any]) -> None:
    root = Path(deployed[0].configs()[0].root)
    tried = 0
    for path in files_of(root):
        whole = path.read_bytes()
        step = 1 if len(whole) < 90 else max(1, len(whole) // 12)
        try:
            for size in range(0, len(whole), step):
                path.write_bytes(whole[:size])
                assert look(*deployed) is not None, (path, size)  # a cut file is no reason to refuse a host
                tried += 1
        finally:
            path.write_bytes(whole)
    assert tried > 100
    state = look(*deployed)
    assert state is not None
    assert state.pending is not None
    assert state.pending.step == "flip"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_any_content_of_any_record_is_survived(
    deployed: tuple[SimFleet, Engine, Any], data: st.DataObject
) -> None:
    root = Path(deployed[0].configs()[0].root)
    path = data.draw(st.sampled_from(files_of(root)))
    whole = path.read_bytes()
    try:
        old: Any = json.loads(whole.splitlines()[0])
    except ValueError:
        old = {}
    kind = data.draw(st.sampled_from(["bytes", "json", "field", "deep"]))
    if kind == "bytes":
        new = data.draw(st.binary(max_size=60))
    elif kind == "deep":
        new = b"[" * 100_000
    elif kind == "field" and isinstance(old, dict) and old:
        name = data.draw(st.sampled_from(sorted(old)))
        new = json.dumps({**old, name: data.draw(anything)}).encode()
    else:
        new = json.dumps(data.draw(anything)).encode()
    try:
        path.write_bytes(new)
        look(*deployed)
    finally:
        path.write_bytes(whole)


def test_a_journal_cut_at_any_byte_says_the_step_whose_record_is_whole_and_takes_the_next_record(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.jsonl"
    mine = Journal(Remote(Here("h1"), str(tmp_path), RUN), str(path), SystemClock())
    mine.begin("deploy", "x", Operator("ada", "desk", 1, ""), {"actions": []})
    steps = [("prepare-root", None), ("stop", "main"), ("flip", "main"), ("start", "main")]
    ends = {path.stat().st_size: ("", None)}
    for step in steps:
        mine.start(*step)
        ends[path.stat().st_size] = step
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        known = [
            step for end, step in ends.items() if end <= size + 1
        ]  # a record counts without its line feed
        expected = known[-1] if known else ("", None)
        assert last_step(str(path), RUN)[:2] == expected, size
        before = len(parse(whole[:size]))
        journal_program.append(str(path), [{"event": "start", "run": RUN, "action": "next", "server": None}])
        assert last_step(str(path), RUN)[:2] == ("next", None)
        assert len(parse(path.read_bytes())) == before + 1


def test_a_lock_that_was_cut_or_spoilt_can_still_be_looked_at_and_taken(tmp_path: Path) -> None:
    desk = Operator("ada", "desk", os.getpid(), "boot")
    for name in ("info.json", "lease.json", "taken.json"):
        for spoilt in (
            b"",
            b"{",
            b"[]",
            b"7",
            b'{"run": 7, "until": "x", "at": [], "boot": {}}',
            b"[" * 100_000,
        ):
            shutil.rmtree(tmp_path / "lock", ignore_errors=True)
            HostLock(
                Remote(Here("h1"), str(tmp_path), "gone"), Operator("bob", "x", 0, ""), "w", "t"
            ).acquire()
            (tmp_path / "lock" / name).write_bytes(spoilt)
            lease = tmp_path / "lock" / "lease.json"
            if name != "lease.json":
                lease.write_text(json.dumps({**json.loads(lease.read_text()), "until": 0.0}))
            mine = HostLock(Remote(Here("h1"), str(tmp_path), "mine"), desk, "w", "t")
            held = mine.look()
            assert held is not None, (name, spoilt)
            assert held.age
            mine.acquire()
            assert mine.held
            mine.release()


def test_a_history_without_end_keeps_its_newest_runs(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    old = {"at": "t", "run": "old", "command": "deploy", "by": "a" * 100, "result": "done", "servers": 7}
    path.write_text(f"{json.dumps(old)}\n" * 30_000)
    remote = Remote(Here("h1"), str(tmp_path), RUN)
    Journal(remote, str(tmp_path / "j"), SystemClock()).finish("done", {"run": "new", "command": "deploy"})
    entries = read_history(LocalHost("h1"), str(tmp_path), sudo=False)
    assert entries[-1].run == "new"
    assert {e.run for e in entries[:-1]} == {"old"}
    assert path.stat().st_size < 3 << 20
