"""Where some of it was done and some of it was not, nobody is told that nothing was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.calling import Call
from specctl.cli.servers import exit_code
from specctl.config.model import HostConfig, ServerConfig
from specctl.errors import SpecctlError, UsageError
from specctl.evidence.model import Evidence, Kind, Report, Verdict
from specctl.exits import ExitCode
from specctl.host.errors import SudoNeedsPassword, Unreachable
from specctl.service.errors import NotSetUp
from specctl.service.protocol import StopOutcome

REFUSED, GONE = SudoNeedsPassword("no sudo"), Unreachable("gone")


@pytest.mark.parametrize(
    ("errors", "ok", "done", "code"),
    [
        ([REFUSED], True, False, ExitCode.USAGE),
        ([REFUSED], True, True, ExitCode.FAILED),
        ([REFUSED], False, False, ExitCode.FAILED),  # another host's evidence has failed
        ([REFUSED, GONE], True, True, ExitCode.UNREACHABLE),
        ([], False, False, ExitCode.FAILED),
    ],
)
def test_a_refusal_hides_neither_what_was_done_nor_what_failed(
    errors: Sequence[SpecctlError], ok: bool, done: bool, code: ExitCode
) -> None:
    assert exit_code(errors, ok=ok, done=done) is code


class Service:
    """Stops; a server named `refused` may not be stopped."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stop(self, timeout_s: float) -> StopOutcome:
        if self.name == "refused":
            raise NotSetUp("root has not set it up")
        return StopOutcome(True, False, 1.0, ())


def test_what_was_stopped_on_a_host_that_then_refuses_is_told(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def service(host: Any, config: Any, server: Any) -> Service:
        return Service(server.name)

    monkeypatch.setattr("specctl.cli.service.service_for", service)
    servers = [{"name": n, "model": "m", "port": p} for p, n in enumerate(("main", "refused"), 30000)]
    host = {"connection": "local", "root": str(tmp_path / "root"), "servers": servers}
    file = tmp_path / "hosts.yaml"
    file.write_text(yaml.safe_dump({"hosts": {"here": host}}))
    answer = call("stop", "-i", str(file), "--json")
    assert [row["server"] for row in answer.json["servers"]] == ["main"]
    assert [error["code"] for error in answer.json["errors"]] == ["not-set-up"]
    assert answer.code == ExitCode.FAILED


@pytest.mark.parametrize("gone", [False, True])
def test_evidence_of_a_hosts_other_servers_is_told_when_one_cannot_be_looked_at(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    def look(host: Any, config: HostConfig, server: ServerConfig, *rest: Any, **more: Any) -> Report:
        if server.name == "second":
            raise Unreachable("gone") if gone else NotSetUp("root has not set it up")
        proven = Evidence(Kind.PROCESS, Verdict.PASS, "process", "runs", "runs", "here")
        return Report(config.name, server.name, "release", "now", (proven,))

    monkeypatch.setattr("specctl.cli.verify.verify_server", look)
    names = ("first", "second", "third")
    servers = [{"name": n, "model": "m", "port": p} for p, n in enumerate(names, 30000)]
    file = tmp_path / "hosts.yaml"
    host = {"connection": "local", "root": str(tmp_path / "root"), "servers": servers}
    file.write_text(yaml.safe_dump({"hosts": {"here": host}}))
    answer = call("verify", "-i", str(file), "--json")
    told = [row["server"] for row in answer.json["servers"]]
    assert told == (["first"] if gone else ["first", "third"])
    (error,) = answer.json["errors"]
    assert (error["host"], error["context"].get("server")) == ("here", None if gone else "second")
    assert answer.code == (ExitCode.UNREACHABLE if gone else ExitCode.USAGE)


def test_a_host_that_cannot_be_asked_for_reasons_of_its_own_hides_no_other(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def connect(config: HostConfig) -> Any:
        raise UsageError("its key is not there") if config.name == "a" else GONE

    monkeypatch.setattr("specctl.release.wiring.connect", connect)
    common = {"root": "/opt/specctl", "servers": [{"name": "main", "model": "m", "port": 30000}]}
    file = tmp_path / "hosts.yaml"
    file.write_text(yaml.safe_dump({"defaults": common, "hosts": {"a": {}, "b": {}}}))
    answer = call("prune", "--yes", "-i", str(file), "--json")
    assert [(e["host"], e["code"]) for e in answer.json["errors"]] == [("a", "usage"), ("b", "unreachable")]
    assert answer.code == ExitCode.UNREACHABLE
