"""The verbs as a user meets them: exit codes, one table, one JSON document, and what they ask for."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from release.sandbox import Sandbox
from specctl.cli.main import main

VERBS = ("plan", "deploy", "rollback", "prune", "status", "locks")


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]


@pytest.fixture
def call(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run specctl in this process on the sandbox; its inventory follows the sandbox's servers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(sandbox.folder / "state"))
    monkeypatch.setenv("COLUMNS", "300")
    for verb in VERBS:
        monkeypatch.setattr(f"specctl.cli.{verb}.real_ports", sandbox.ports)

    def run(*words: str) -> Answer:
        path = sandbox.folder / "hosts.yaml"
        host = {
            "connection": "local",
            "root": str(sandbox.root),
            "supervisor": "supervisor",
            "python": sys.executable,
            "servers": [
                {
                    "name": s.name,
                    "port": s.port,
                    "model": s.model,
                    "gpus": list(s.gpus),
                    "args": list(s.args),
                    "threshold": {"disable": s.threshold.disable} if s.threshold else None,
                    "timers": {"start": 60, "hold": 2, "stop": 5},
                }
                for s in sandbox.servers
            ],
        }
        path.write_text(yaml.safe_dump({"hosts": {"here": host}}))
        with pytest.raises(SystemExit) as ended:
            main([words[0], "-i", str(path), *words[1:]])
        seen = capsys.readouterr()
        return Answer(int(ended.value.code or 0), seen.out, seen.err)

    return run


def test_a_whole_life_in_exit_codes(sandbox: Sandbox, call: Call) -> None:
    one, two = str(sandbox.dist(1)), str(sandbox.dist(2))
    assert call("plan", "--dist", one).code == 3
    assert call("status").code == 3  # nothing serves yet
    assert call("deploy", "--dist", one, "--dry-run").code == 3
    assert not sandbox.root.exists()
    first = call("deploy", "--dist", one, "--yes")
    assert first.code == 0, first.err
    assert first.out.count("\n") == 2  # one table: a head and a row
    assert "3 of 3" in first.out
    assert "here: gate main ok" in first.err  # progress: one line a step in a pipe
    assert call("deploy", "--dist", one).code == 0  # nothing to do needs no --yes
    assert call("plan", "--dist", one).code == 0
    assert call("status", "--dist", one).code == 0
    assert call("status", "--dist", two).code == 3
    second = call("deploy", "--dist", two, "--yes", "--json")
    assert second.json["exit_code"] == 0
    assert second.json["hosts"][0]["servers"][0]["evidence"][0]["verdict"] == "pass"
    back = call("rollback", "--yes")
    assert back.code == 0
    assert sandbox.version() == "0.5.9+specctl.1"
    runs = call("history", "--json").json["hosts"][0]["runs"]
    assert [(r["command"], r["result"]) for r in runs] == [
        ("deploy", "done"),
        ("deploy", "done"),
        ("rollback", "done"),
    ]
    assert "ada@desk" in call("history").out
    assert "complete" in call("history", "--releases").out
    assert call("unlock").out.endswith("was not locked\n")
    assert call("prune", "--keep", "1", "--yes").code == 0


def test_without_a_terminal_a_change_needs_yes_and_touches_nothing(sandbox: Sandbox, call: Call) -> None:
    answer = call("deploy", "--dist", str(sandbox.dist(1)))
    assert answer.code == 2
    assert "needs-yes" in answer.err
    assert "--dry-run" in answer.err
    assert not sandbox.root.exists()


def test_whoever_says_no_is_told_that_nothing_was_changed(
    sandbox: Sandbox, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = io.StringIO("n\n")
    keys.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", keys)
    answer = call("deploy", "--dist", str(sandbox.dist(1)))
    assert answer.code == 130
    assert "nothing was changed" in answer.err
    assert "interrupted" not in answer.err
    assert not sandbox.root.exists()


def test_plan_diff_dry_run_and_deploy_have_the_same_list_of_actions(sandbox: Sandbox, call: Call) -> None:
    dist = str(sandbox.dist(1))
    plans = [
        call(*words, "--dist", dist, "--json").json["hosts"]
        for words in (("plan",), ("diff",), ("deploy", "--dry-run"))
    ]
    assert plans[0] == plans[1] == plans[2]
    planned = [a["action"] for a in plans[0][0]["actions"]]
    call("deploy", "--dist", dist, "--yes")
    journal = sandbox.root / "releases" / sandbox.release(1) / "journal.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [r["action"] for r in records if r["event"] == "start"] == planned


def test_a_failure_names_host_step_output_and_next_step(sandbox: Sandbox, call: Call) -> None:
    call("deploy", "--dist", str(sandbox.dist(1)), "--yes")
    answer = call("deploy", "--dist", str(sandbox.dist(2, die_at_start="1")), "--yes")
    assert answer.code == 6
    for part in ("host: here", "step: gate main", "dies at start on purpose", "hint:", "specctl logs"):
        assert part in answer.err
    assert "rolled back" in answer.out
    assert sandbox.version() == "0.5.9+specctl.1"


def test_resume_without_an_earlier_run_and_with_nothing_left_says_so(sandbox: Sandbox, call: Call) -> None:
    dist = str(sandbox.dist(1))
    assert "no-last-run" in call("deploy", "--dist", dist, "--resume", "--yes").err
    call("deploy", "--dist", dist, "--yes")
    assert "nothing-to-resume" in call("deploy", "--dist", dist, "--resume", "--yes").err


def test_resume_takes_only_what_failed(sandbox: Sandbox, call: Call) -> None:
    call("deploy", "--dist", str(sandbox.dist(1, die_at_start="1")), "--yes")
    answer = call("deploy", "--dist", str(sandbox.dist(2)), "--resume", "--yes", "--json")
    assert [h["host"] for h in answer.json["hosts"]] == ["here"]
    assert answer.code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("deploy", "--serial", "0"),
        ("deploy", "--max-fail", "many"),
        ("deploy", "--canary", "-1"),
        ("rollback", "--serial", "x"),
        ("prune", "--keep", "0"),
    ],
)
def test_a_wrong_option_is_exit_2_before_any_host_is_asked(
    sandbox: Sandbox, call: Call, words: tuple[str, ...]
) -> None:
    dist = ("--dist", str(sandbox.dist(1))) if words[0] == "deploy" else ()
    assert call(*words, *dist, "--yes").code == 2
    assert not sandbox.root.exists()


def test_a_distribution_whose_wheel_was_changed_is_refused(sandbox: Sandbox, call: Call) -> None:
    dist = sandbox.dist(1)
    wheel: Path = next(dist.glob("*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-10])
    answer = call("deploy", "--dist", str(dist), "--yes")
    assert answer.code == 2
    assert "wheel-differs" in answer.err


def test_a_distribution_of_another_base_than_the_inventory_says_is_refused(
    sandbox: Sandbox, call: Call
) -> None:
    record = sandbox.dist(1) / "dist.json"
    record.write_text(record.read_text().replace('"base_version": "0.5.9"', '"base_version": "0.5.8"'))
    answer = call("plan", "--dist", str(sandbox.dist(1)), "--json")
    assert answer.code == answer.json["exit_code"] == 2
    assert answer.json["errors"][0]["code"] == "other-base"
    answer = call("deploy", "--dist", str(sandbox.dist(1)), "--yes", "--json")
    assert answer.code == 2
    assert answer.json["hosts"][0]["outcome"] == "refused"
    assert not sandbox.root.exists()


def test_a_held_lock_is_exit_5_and_unlock_needs_force(sandbox: Sandbox, call: Call) -> None:
    call("deploy", "--dist", str(sandbox.dist(1)), "--yes")
    folder = sandbox.root / "lock"
    folder.mkdir()
    info = {
        "run": "r",
        "who": "eve",
        "where": "attic",
        "what": "deploy 9",
        "since": "t",
        "pid": 1,
        "boot": "b",
    }
    (folder / "info.json").write_text(json.dumps(info))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (folder / "lease.json").write_text(json.dumps({"boot": boot, "until": 1e12, "step": "gate main"}))
    held = call("deploy", "--dist", str(sandbox.dist(2)), "--yes")
    assert held.code == 5
    assert "eve on attic" in held.err
    assert "locked by eve on attic" in call("status").err
    assert call("unlock").code == 5
    assert "eve" in call("unlock", "--force").out
    assert not folder.exists()
    assert call("deploy", "--dist", str(sandbox.dist(2)), "--yes").code == 0
