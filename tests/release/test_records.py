"""Journals, histories, the stack of good states, and what may be pruned."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.host.local import LocalHost
from specctl.release.actions.record import next_goods
from specctl.release.clock import Operator, SystemClock
from specctl.release.history import read_history
from specctl.release.journal import Journal, parse
from specctl.release.onhost.state import last_step
from specctl.release.prune import prunable, useless
from specctl.release.remote import Remote
from specctl.release.state import Good, HostState, Pending, ReleaseState, ServerRecord


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def journal(root: Path, run: str = "r1") -> Journal:
    remote = Remote(LocalHost("h1"), str(root), run)
    return Journal(remote, str(root / "releases" / "x" / "journal.jsonl"), SystemClock())


def test_a_run_is_found_by_the_next_command_until_its_end_is_written(root: Path) -> None:
    mine = journal(root)
    mine.begin("deploy", "x", Operator("ada", "desk", 1, ""), {"actions": []})
    mine.start("flip", "main")
    pending = json.loads((root / "pending.json").read_text())
    assert pending["run"] == "r1"
    assert last_step(pending["journal"], "r1") == ("flip", "main", False)
    mine.end("flip", "main", "ok")
    mine.finish("done", {"run": "r1", "command": "deploy", "result": "done", "by": "ada@desk", "at": "t"})
    assert not (root / "pending.json").exists()
    assert last_step(pending["journal"], "r1") == ("flip", "main", True)
    (entry,) = read_history(LocalHost("h1"), str(root), sudo=False)
    assert (entry.by, entry.result) == ("ada@desk", "done")


def test_a_line_that_a_crash_cut_is_passed_over_and_spoils_no_later_one(root: Path) -> None:
    mine = journal(root)
    mine.begin("deploy", "x", Operator("ada", "desk", 1, ""), {})
    path = Path(mine.path)
    path.write_bytes(path.read_bytes() + b'{"event": "start", "run": "r1", "act')
    mine.start("flip", "main")
    assert [r["event"] for r in parse(path.read_bytes())] == ["begin", "start"]
    assert last_step(str(path), "r1") == ("flip", "main", False)


records = st.lists(
    st.dictionaries(st.text(max_size=5), st.one_of(st.text(), st.integers(), st.none()), max_size=3)
)


@given(records=records, cut=st.integers(0, 400))
def test_however_a_journal_is_cut_its_whole_lines_are_read(
    records: list[dict[str, object]], cut: int
) -> None:
    data = "".join(json.dumps(r) + "\n" for r in records).encode()
    short = data[: max(0, len(data) - cut)]
    whole = short.count(b"\n")
    found = parse(short)
    assert found[:whole] == records[:whole]
    assert len(found) <= whole + 1  # the cut end may happen to be whole


@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_journal_without_a_crash(data: bytes) -> None:
    assert all(isinstance(r, dict) for r in parse(data))


def good(release: str) -> Good:
    return Good(release, "u", "t", "ada@desk", "r")


@given(
    moves=st.lists(
        st.one_of(st.tuples(st.just("deploy"), st.sampled_from("abcdef")), st.just(("rollback", ""))),
        max_size=30,
    )
)
def test_rollbacks_always_go_back_along_the_way_that_was_come(moves: list[tuple[str, str]]) -> None:
    stack: tuple[Good, ...] = ()
    model: list[str] = []
    for verb, release in moves:
        if verb == "deploy":
            stack = next_goods(stack, good(release), rollback=False)
            model = [r for r in model if r != release] + [release]
        elif len(model) > 1:
            target = ServerRecord("main", goods=stack).before
            assert target is not None
            assert target.release == model[-2]
            stack = next_goods(stack, good(target.release), rollback=True)
            model.pop()
        else:
            assert ServerRecord("main", goods=stack).before is None
        assert [g.release for g in stack] == model


def test_a_rollback_by_name_to_what_is_not_in_the_way_puts_it_on_top() -> None:
    stack = next_goods((good("a"), good("b")), good("z"), rollback=True)
    assert [g.release for g in stack] == ["a", "b", "z"]


IDS = [f"r{n}" for n in range(8)]


@st.composite
def hosts(draw: st.DrawFn) -> HostState:
    releases = {}
    for number, name in enumerate(draw(st.lists(st.sampled_from(IDS), unique=True))):
        complete = draw(st.booleans())
        failed = draw(st.sampled_from([None, "it failed"]))
        releases[name] = ReleaseState(name, complete, failed, completed_at=float(number) if complete else 0.0)
    servers = {}
    for name in draw(st.lists(st.sampled_from(["main", "other"]), unique=True)):
        goods = draw(st.lists(st.sampled_from(IDS), unique=True, max_size=4))
        servers[name] = ServerRecord(name, draw(st.sampled_from([None, *IDS])), tuple(map(good, goods)))
    pending = draw(st.sampled_from([None, Pending("r", "deploy", draw(st.sampled_from(IDS)), "a", "t", "j")]))
    return HostState(True, releases=releases, servers=servers, pending=pending)


@given(state=hosts(), keep=st.integers(0, 5), new=st.sampled_from([None, *IDS]))
def test_pruning_never_takes_what_serves_the_way_back_or_the_newest_good_ones(
    state: HostState, keep: int, new: str | None
) -> None:
    gone = set(prunable(state, keep, new))
    assert gone <= set(state.releases)
    for server in state.servers.values():
        assert server.current not in gone
        assert not {g.release for g in (server.good, server.before) if g} & gone
    if state.pending:
        assert state.pending.release not in gone
    assert new not in gone
    usable = sorted(
        (r for r in state.releases.values() if r.complete and not r.failed and r.id != new),
        key=lambda r: r.completed_at,
    )
    newest = {r.id for r in usable[len(usable) - max(0, keep - (new is not None)) :]} if keep else set()
    assert not newest & gone
    left = [r for r in state.releases.values() if r.id not in gone and r.failed]
    protected = (
        {r.id for r in left}
        - {
            x
            for s in state.servers.values()
            for x in (s.current, s.good and s.good.release, s.before and s.before.release)
        }
        - {new, state.pending.release if state.pending else None}
    )
    assert len(protected) <= 1  # failed ones do not pile up
    assert set(useless(state, sorted(gone))) <= gone


@pytest.mark.parametrize("failures", [1, 3, 10])
def test_however_many_deploys_failed_the_last_good_release_stays(failures: int) -> None:
    releases = {"good": ReleaseState("good", True, completed_at=1.0)}
    for n in range(failures):
        releases[f"bad{n}"] = ReleaseState(f"bad{n}", True, "it failed", completed_at=2.0 + n)
    state = HostState(
        True, releases=releases, servers={"main": ServerRecord("main", "good", (good("good"),))}
    )
    gone = prunable(state, 1)
    assert "good" not in gone
    assert len(gone) == failures - 1
