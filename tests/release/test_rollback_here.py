"""Rollbacks on this machine."""

from __future__ import annotations

from release.sandbox import Sandbox
from specctl.config.model import ThresholdPolicy
from specctl.release.result import Outcome


def test_three_rollbacks_in_a_row_go_three_releases_back_and_prove_each(sandbox: Sandbox) -> None:
    sandbox.changes = {"keep_releases": 9}
    for number in (1, 2, 3, 4):
        assert sandbox.deploy(sandbox.dist(number)).outcome is Outcome.DONE
    for number in (3, 2, 1):
        sandbox.steps.clear()
        result = sandbox.rollback()
        assert result.outcome is Outcome.DONE
        assert ("gate", "ok") in sandbox.steps
        assert sandbox.version() == f"0.5.9+specctl.{number}"
        assert result.servers[0].report is not None
        assert sandbox.state().server("main").proven
    assert sandbox.rollback().error.code == "no-target"  # type: ignore[union-attr]
    assert sandbox.rollback(to=sandbox.release(4)).outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.4"
    assert sandbox.rollback().outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.1"


def test_a_rollback_brings_back_the_unit_that_went_with_the_release(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    unit = (sandbox.service("main").folder / "unit.json").read_bytes()
    sandbox.change("main", threshold=ThresholdPolicy(disable=32))
    sandbox.deploy(sandbox.dist(2))
    assert (sandbox.service("main").folder / "unit.json").read_bytes() != unit
    assert sandbox.rollback().outcome is Outcome.DONE
    assert (sandbox.service("main").folder / "unit.json").read_bytes() == unit


def test_a_rollback_that_fails_leaves_what_served_serving_and_is_never_tried_again(sandbox: Sandbox) -> None:
    sandbox.changes = {"keep_releases": 9}
    for number in (1, 2, 3):
        sandbox.deploy(sandbox.dist(number))
    sandbox.service("main").fail_next["start"] = RuntimeError("the GPU is away")
    result = sandbox.rollback()
    assert result.outcome is Outcome.ROLLED_BACK
    assert sandbox.version() == "0.5.9+specctl.3"
    assert sandbox.rollback().outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.1"  # 2 failed: not a target


def test_a_failed_release_is_not_rolled_back_to_even_by_name(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.deploy(sandbox.dist(2, die_at_start="1"))
    result = sandbox.rollback(to=sandbox.release(2))
    assert result.error is not None
    assert "failed" in result.error.context["candidates"]
    assert sandbox.version() == "0.5.9+specctl.1"


def two(sandbox: Sandbox) -> None:
    sandbox.servers = (sandbox.server("main", gpus=(0,)), sandbox.server("other", gpus=(1,)))


def test_servers_of_a_host_have_histories_of_their_own(sandbox: Sandbox) -> None:
    two(sandbox)
    both = sandbox.servers
    sandbox.deploy(sandbox.dist(1))
    sandbox.deploy(sandbox.dist(2))
    sandbox.servers = (both[1],)
    assert sandbox.rollback().outcome is Outcome.DONE
    sandbox.servers = (both[0],)
    for number in (3, 4, 5):
        assert sandbox.deploy(sandbox.dist(number)).outcome is Outcome.DONE
    sandbox.servers = both
    assert sandbox.version("main") == "0.5.9+specctl.5"
    assert sandbox.version("other") == "0.5.9+specctl.1"
    kept = set(sandbox.state().releases)
    assert sandbox.release(1) in kept  # pruning for one server keeps what the other one runs


def test_changing_one_server_leaves_the_other_one_alone(sandbox: Sandbox) -> None:
    two(sandbox)
    dist = sandbox.dist(1)
    sandbox.deploy(dist)
    calls = list(sandbox.service("other").calls)
    sandbox.change("main", threshold=ThresholdPolicy(disable=32))
    assert sandbox.deploy(dist).outcome is Outcome.DONE
    assert sandbox.service("other").calls == calls


def test_when_the_second_server_fails_the_first_one_goes_back_too(sandbox: Sandbox) -> None:
    two(sandbox)
    sandbox.deploy(sandbox.dist(1))
    sandbox.change("other", env={"STANDIN_DIE_AT_START": "1"})
    result = sandbox.deploy(sandbox.dist(2))
    assert result.outcome is Outcome.ROLLED_BACK
    assert result.error is not None
    assert result.error.context["server"] == "other"
    assert {sandbox.version(n) for n in ("main", "other")} == {"0.5.9+specctl.1"}
    assert "main serves" in result.state
    assert "other serves" in result.state
