"""Deploys on this machine, with real venvs and stand-in servers."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

from release.sandbox import Sandbox
from specctl.config.model import SecretRef, ThresholdPolicy, Timers
from specctl.exits import ExitCode
from specctl.release.journal import parse
from specctl.release.result import Outcome, overall
from specctl.service.errors import ServiceError


def journal_of(sandbox: Sandbox, number: int) -> list[dict[str, object]]:
    return parse((sandbox.root / "releases" / sandbox.release(number) / "journal.jsonl").read_bytes())


def test_a_first_deploy_serves_and_a_second_one_of_the_same_does_nothing(sandbox: Sandbox) -> None:
    dist = sandbox.dist(1)
    first = sandbox.deploy(dist)
    assert first.error is None, first
    assert first.outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.1"
    assert sandbox.state().server("main").proven
    assert sandbox.plan(dist).actions == ()
    before = list(sandbox.service("main").calls)
    assert sandbox.deploy(dist).outcome is Outcome.UNCHANGED
    assert sandbox.service("main").calls == before


def test_the_journal_names_each_action_before_it_ran_and_the_plan_that_was_run(sandbox: Sandbox) -> None:
    dist = sandbox.dist(1)
    planned = [a.kind for a in sandbox.plan(dist).actions]
    sandbox.deploy(dist)
    records = journal_of(sandbox, 1)
    assert [r["action"] for r in records if r["event"] == "start"] == planned
    assert [a["action"] for a in records[0]["plan"]["actions"]] == planned  # type: ignore[index,call-overload]
    assert records[0]["by"] == "ada@desk"
    assert records[-1]["event"] == "finish"
    assert not (sandbox.root / "pending.json").exists()
    assert not (sandbox.root / "lock").exists()


def test_a_release_that_dies_at_start_is_undone_and_the_error_shows_the_servers_log(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    unit = (sandbox.service("main").folder / "unit.json").read_bytes()
    sandbox.change("main", threshold=ThresholdPolicy(disable=32))
    result = sandbox.deploy(sandbox.dist(2, die_at_start="1"))
    assert result.outcome is Outcome.ROLLED_BACK
    assert overall([result]) is ExitCode.ROLLED_BACK
    assert result.error is not None
    assert result.error.code == "gate-failed"
    assert "dies at start on purpose" in result.error.context["log"]
    assert result.error.context["step"] == "gate main"
    assert "serves" in result.state
    assert sandbox.version() == "0.5.9+specctl.1"
    assert (sandbox.service("main").folder / "unit.json").read_bytes() == unit
    state = sandbox.state()
    assert state.releases[sandbox.release(2)].failed
    assert state.releases[sandbox.release(2)].complete
    assert state.server("main").proven


def test_a_first_deploy_that_fails_leaves_nothing_running_and_is_no_rollback(sandbox: Sandbox) -> None:
    result = sandbox.deploy(sandbox.dist(1, die_at_start="1"))
    assert result.outcome is Outcome.FAILED
    assert "stopped" in result.state
    assert sandbox.current() is None
    assert not (sandbox.service("main").folder / "unit.json").exists()
    calls = sandbox.service("main").calls
    assert calls.index("prepare") < calls.index("stop")
    (left,) = result.notes
    assert f"this first deploy left there: {sandbox.release(1)}, and a cache" in left
    subprocess.run(left.split("on the host: ")[1], shell=True, check=True)
    assert not [path for path in sandbox.root.iterdir() if path.is_dir()]


def test_a_supervisor_that_cannot_be_brought_leaves_the_old_release_serving(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.service("main").fail_next["prepare"] = ServiceError("pip finds no supervisor")
    result = sandbox.deploy(sandbox.dist(2))
    assert result.error is not None
    assert result.error.context["step"] == "bring-supervisor"
    assert result.state == "nothing that serves was touched"
    assert result.notes == ()  # what serves is no leftover
    assert sandbox.version() == "0.5.9+specctl.1"


def test_a_failed_release_may_be_deployed_again_and_is_good_when_it_passes(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    dist = sandbox.dist(2)
    sandbox.service("main").fail_next["start"] = RuntimeError("the GPU is away")
    assert sandbox.deploy(dist).outcome is Outcome.ROLLED_BACK
    assert sandbox.state().releases[sandbox.release(2)].failed
    assert sandbox.deploy(dist).outcome is Outcome.DONE
    assert sandbox.state().releases[sandbox.release(2)].failed is None


def test_a_failure_at_fetch_touches_nothing_and_removes_no_older_release(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    dist = sandbox.dist(2)
    maker = sandbox.maker(dist)
    calls = list(sandbox.service("main").calls)
    (dist / "lock-cuda.txt").unlink()
    result = sandbox.engine.run(sandbox.config, maker, command="deploy", what="deploy")
    assert result.outcome is Outcome.REFUSED
    assert sandbox.service("main").calls == calls
    assert set(sandbox.state().releases) == {sandbox.release(1)}


def test_an_environment_that_cannot_be_made_leaves_the_old_release_serving(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.changes = {"python": "/nowhere/python3"}
    result = sandbox.deploy(sandbox.dist(2))
    assert result.outcome is Outcome.FAILED
    assert result.state == "nothing that serves was touched"
    assert result.error is not None
    assert result.error.context["step"] == "make-venv"
    assert "/nowhere/python3" in result.error.context["output"]
    assert sandbox.version() == "0.5.9+specctl.1"
    assert not sandbox.state().releases[sandbox.release(2)].complete


def test_a_wheel_that_was_changed_on_the_host_never_becomes_current(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.deploy(sandbox.dist(2))
    found = list((sandbox.root / "releases" / sandbox.release(1)).rglob("dynamic_disable/__init__.py"))
    found[0].unlink()  # it is a hard link: writing into it would change uv's cache
    found[0].write_text("edited by hand\n")
    result = sandbox.rollback()
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error.code == "install-differs"
    assert sandbox.version() == "0.5.9+specctl.2"


def test_changed_arguments_restart_the_server_on_the_same_release_under_the_gate(sandbox: Sandbox) -> None:
    dist = sandbox.dist(1)
    sandbox.deploy(dist)
    sandbox.change("main", threshold=ThresholdPolicy(disable=32))
    plan = sandbox.plan(dist)
    assert plan.servers[0].why == ("unit: changed",)
    assert not {"flip", "make-venv", "push-distribution"} & {a.kind for a in plan.actions}
    assert sandbox.deploy(dist).outcome is Outcome.DONE
    assert "threshold=32" in sandbox.service("main").log.read_text()


def test_arguments_that_fail_bring_the_old_ones_back_and_do_not_blame_the_release(sandbox: Sandbox) -> None:
    dist = sandbox.dist(1)
    sandbox.deploy(dist)
    unit = (sandbox.service("main").folder / "unit.json").read_bytes()
    sandbox.change("main", env={"STANDIN_DIE_AT_START": "1"})
    assert sandbox.deploy(dist).outcome is Outcome.ROLLED_BACK
    assert (sandbox.service("main").folder / "unit.json").read_bytes() == unit
    assert sandbox.state().releases[sandbox.release(1)].failed is None
    assert sandbox.version() == "0.5.9+specctl.1"


def test_a_server_that_dies_inside_the_hold_window_does_not_pass(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.clock._shortest = 0.5
    sandbox.change("main", timers=Timers(start_s=60.0, hold_s=30.0, stop_s=5.0))
    result = sandbox.deploy(sandbox.dist(2, die_after_s="3"))
    assert result.outcome is Outcome.ROLLED_BACK
    assert result.error is not None
    assert "hold window" in result.error.message


def test_an_old_marker_in_the_log_proves_nothing_about_the_new_process(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    assert "Dynamic speculation disable enabled" in sandbox.service("main").log.read_text()
    result = sandbox.deploy(sandbox.dist(2, no_marker="1"))
    assert result.outcome is Outcome.ROLLED_BACK
    assert result.error is not None
    assert "marker-absent" in result.error.context["evidence"]


def test_a_way_back_that_fails_says_that_the_service_is_down_and_why(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    broken = sandbox.root / "releases" / sandbox.release(1) / "venv" / "bin" / "python"
    dist = sandbox.dist(2, die_at_start="1")
    plan = sandbox.maker(dist)
    broken.unlink()
    result = sandbox.engine.run(sandbox.config, plan, command="deploy", what="deploy")
    assert result.outcome is Outcome.DOWN
    assert overall([result]) is ExitCode.DOWN
    assert "the way back failed" in result.state
    assert "stop main" in result.state


def test_a_server_that_was_stopped_is_started_again_by_a_deploy(sandbox: Sandbox) -> None:
    dist = sandbox.dist(1)
    sandbox.deploy(dist)
    sandbox.service("main").stop(5.0)
    assert sandbox.plan(dist).servers[0].why == ("process: not running",)
    assert sandbox.deploy(dist).outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.1"


def test_a_plan_that_the_operator_did_not_see_is_not_carried_out(sandbox: Sandbox) -> None:
    dist = sandbox.dist(1)
    seen = sandbox.plan(dist).digest
    sandbox.change("main", threshold=ThresholdPolicy(disable=8))
    result = sandbox.deploy(dist, seen=seen)
    assert result.error is not None
    assert result.error.code == "plan-changed"
    assert not (sandbox.root / "releases").exists()


def secret_server(sandbox: Sandbox) -> None:
    sandbox.secrets = {"HF": "hf_very-secret 'quoted' $1", "KEY": "sk-other"}
    path = str(sandbox.root / "servers" / "main" / "args.yaml")
    sandbox.servers = (
        replace(
            sandbox.servers[0],
            secrets={"HF_TOKEN": SecretRef("env", "HF")},
            secret_args={"--admin-key": SecretRef("env", "KEY")},
            secret_file=path,
        ),
    )


def all_bytes(folder: Path, leave_out: set[str]) -> bytes:
    return b"".join(
        p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in leave_out and "venv" not in p.parts
    )


def test_secrets_are_in_files_that_only_their_reader_may_open_and_nowhere_else(sandbox: Sandbox) -> None:
    secret_server(sandbox)
    dist = sandbox.dist(1)
    plan = json.dumps(sandbox.plan(dist).as_dict())
    assert sandbox.deploy(dist).outcome is Outcome.DONE
    files = {"secrets.env", "args.yaml"}
    for name in files:
        path = sandbox.root / "servers" / "main" / name
        assert path.stat().st_mode & 0o777 == 0o600
    elsewhere = all_bytes(sandbox.root, files)
    for value in sandbox.secrets.values():
        assert value not in plan
        assert value.encode() not in elsewhere
    assert sandbox.plan(dist).actions == ()


def test_a_changed_secret_restarts_the_server_and_a_failure_brings_the_old_one_back(sandbox: Sandbox) -> None:
    secret_server(sandbox)
    dist = sandbox.dist(1)
    sandbox.deploy(dist)
    path = sandbox.root / "servers" / "main" / "secrets.env"
    before = path.read_bytes()
    sandbox.secrets["HF"] = "hf_new"
    assert sandbox.plan(dist).servers[0].why == ("secrets: changed",)
    sandbox.service("main").fail_next["start"] = RuntimeError("no")
    assert sandbox.deploy(dist).outcome is Outcome.ROLLED_BACK
    assert path.read_bytes() == before
    assert sandbox.deploy(dist).outcome is Outcome.DONE
    assert b"hf_new" in path.read_bytes()
    assert b"very-secret" not in all_bytes(sandbox.root, set())


def test_current_is_a_relative_link_so_that_the_root_may_be_mounted_elsewhere(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    link = sandbox.root / "servers" / "main" / "current"
    assert str(link.readlink()) == f"../../releases/{sandbox.release(1)}"


def test_a_server_that_was_stopped_on_purpose_stays_stopped_when_a_deploy_fails(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    sandbox.service("main").stop(5.0)
    result = sandbox.deploy(sandbox.dist(2, die_at_start="1"))
    assert result.outcome is Outcome.FAILED
    assert result.state == "main is stopped, as it was before"
    assert sandbox.current() == sandbox.release(1)
    assert sandbox.version() is None
