"""Plans of deploys and rollbacks, from tables of hosts."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from release.facts import IDS, WANTED, expectation, host_facts, letters, source
from specctl.errors import SpecctlError
from specctl.release.actions.deadman import ArmDeadman
from specctl.release.actions.prune import Prune
from specctl.release.actions.switch import Flip
from specctl.release.actions.upload import PushWheels
from specctl.release.clock import Operator
from specctl.release.deploy_plan import make_deploy_plan
from specctl.release.rollback_plan import make_rollback_plan
from specctl.release.state import LockInfo
from specctl.release.status import HostStatus, status_of

CASES = Path(__file__).parents[1] / "cases" / "plan"


def cases(name: str) -> list[Any]:
    found = yaml.safe_load((CASES / f"{name}.yaml").read_text())
    return [pytest.param(case, id=case["name"]) for case in found]


@pytest.mark.parametrize("case", cases("deploy"))
def test_a_deploy_plans(case: dict[str, Any]) -> None:
    facts = host_facts(case)
    if "refused" in case:
        with pytest.raises(SpecctlError) as caught:
            make_deploy_plan(facts, source(case), IDS["N"])
        assert caught.value.code == case["refused"]
        assert case.get("says", "") in caught.value.message
        return
    plan = make_deploy_plan(facts, source(case), IDS["N"])
    assert [a.kind for a in plan.actions] == case["expect"]
    assert plan.changes == bool(case["expect"])
    if "why" in case:
        assert [letters(w) for w in plan.servers[0].why] == case["why"]
    if "back_to" in case:
        armed = next(a for a in plan.actions if isinstance(a, ArmDeadman))
        back = armed.servers[0].release
        assert (letters(back) if back else None) == case["back_to"]
    if "pruned" in case:
        pruned = next(a for a in plan.actions if isinstance(a, Prune))
        assert [letters(r) for r in pruned.releases] == case["pruned"]
    if "pushed" in case:
        pushed = next(a for a in plan.actions if isinstance(a, PushWheels))
        assert [f.remote.rsplit("/", 1)[1] for f in pushed.files] == case["pushed"]


@pytest.mark.parametrize("case", cases("rollback"))
def test_a_rollback_leads(case: dict[str, Any]) -> None:
    facts = host_facts(case)
    to = IDS[case["to"]] if "to" in case else None

    def roll() -> Any:
        return make_rollback_plan(
            facts, to, lambda release, server: expectation(case), lambda server, unit: (WANTED, "unit")
        )

    if "refused" in case:
        with pytest.raises(SpecctlError) as caught:
            roll()
        assert caught.value.code == case["refused"]
        return
    plan = roll()
    if case.get("nothing"):
        assert plan.actions == ()
        return
    if "only" in case:
        assert [a.kind for a in plan.actions] == case["only"]
        return
    assert letters(plan.release) == case["target"]
    kinds = [a.kind for a in plan.actions]
    assert kinds[:3] == ["prepare-root", "check-install", "arm-deadman"]
    for kind in ("stop", "start", "gate", "mark-good", "disarm-deadman"):  # restarts, gates and proves
        assert kind in kinds
    flips = [letters(a.release) for a in plan.actions if isinstance(a, Flip)]
    assert flips == ([] if case["current"] == case["target"] else [case["target"]])


@pytest.mark.parametrize("case", [c for c in cases("deploy") if "expect" in c.values[0]])
def test_every_plan_is_json_and_says_what_each_step_does(case: dict[str, Any]) -> None:
    plan = make_deploy_plan(host_facts(case), source(case), IDS["N"])
    document = json.loads(json.dumps(plan.as_dict()))
    assert [a["action"] for a in document["actions"]] == [a.kind for a in plan.actions]
    assert all(a["does"] for a in document["actions"])


def test_the_same_facts_give_the_same_plan_and_other_facts_another() -> None:
    fresh: dict[str, Any] = {}
    one = make_deploy_plan(host_facts(fresh), source(fresh), IDS["N"])
    two = make_deploy_plan(host_facts(fresh), source(fresh), IDS["N"])
    other = make_deploy_plan(host_facts({"push_uv": True}), source(fresh), IDS["N"])
    assert one.digest == two.digest != other.digest


def status(case: dict[str, Any], **lock: Any) -> HostStatus:
    facts = host_facts(case)
    if lock:
        raw = {"run": "r0", "who": "a", "where": "b", "what": "c", "since": "", "pid": 0, "boot": ""}
        facts = replace(facts, state=replace(facts.state, lock=LockInfo(**{**raw, **lock})))
    return status_of(facts, None, Operator.here())


LOST = {
    "releases": {"A": "complete", "N": "complete"},
    "current": "N",
    "goods": ["A"],
    "pending": {"release": "N", "step": "gate", "deadman": "armed"},
}


def test_status_tells_what_a_lost_run_left_and_what_to_do() -> None:
    found = status(LOST)
    assert found.drifts
    assert found.unfinished is not None
    assert "its last step was gate" in found.unfinished
    assert "go back by itself" in found.unfinished
    assert found.servers[0].state == "not proven"
    assert found.servers[0].previous == IDS["A"]


def test_status_does_not_call_a_run_lost_while_its_holder_is_in_time() -> None:
    assert status(LOST, overdue_s=-30.0).unfinished is None
    assert status(LOST, overdue_s=5.0).unfinished is not None


def test_status_knows_a_dead_holder_of_this_machine_at_once() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    here = Operator.here()
    assert status(LOST, overdue_s=-30.0, pid=child.pid, boot=here.boot).unfinished is not None


@pytest.mark.parametrize(
    ("case", "state", "drift"),
    [
        ({"releases": {"A": "complete"}, "current": "A", "goods": ["A"]}, "good", ()),
        (
            {"releases": {"A": "complete"}, "current": "A", "goods": ["A"], "unit": "other"},
            "not proven",
            ("unit: changed",),
        ),
        (
            {"releases": {"A": "complete"}, "current": "A", "goods": ["A"], "running": False},
            "good",
            ("process: not running",),
        ),
        (
            {"releases": {"A": "half"}, "current": "A", "goods": ["A"]},
            "broken",
            ("release: not complete on this host",),
        ),
        ({}, "none", ("release: none",)),
    ],
)
def test_drift_from_the_inventory(case: dict[str, Any], state: str, drift: tuple[str, ...]) -> None:
    found = status(case).servers[0]
    assert (found.state, found.drift) == (state, drift)


def test_a_plan_names_the_overlaid_files_that_differ_from_what_last_passed() -> None:
    case = {"releases": {"A": "complete"}, "current": "A", "goods": ["A"]}
    facts = host_facts(case)
    (server,) = facts.servers
    files = {"sglang/b.py": "new", "sglang/c.py": "3" * 64}
    wanted = replace(server, expectation=replace(server.expectation, files=files))
    before = facts.state.servers["main"]
    good = replace(
        before.goods[0],
        expectation={"files": {"sglang/a.py": "x", "sglang/b.py": "old", "sglang/c.py": "3" * 64}},
    )
    state = replace(facts.state, servers={"main": replace(before, goods=(good,))})
    plan = make_deploy_plan(replace(facts, servers=(wanted,), state=state), source(case), IDS["N"])
    assert plan.servers[0].files == ("- sglang/a.py", "~ sglang/b.py")
