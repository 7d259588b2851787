"""With --json every verb prints one document of one shape, so that one script reads them all."""

from __future__ import annotations

import hashlib
import json
import socket
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from release.facts import DISTRIBUTION

from cli.calling import Call
from specctl.host.errors import CommandFailed


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """An inventory of this machine and of one on which no sshd runs; and a distribution."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    servers = [{"name": "main", "model": "m", "port": port, "timers": {"hold": 0}}]
    common = {"overlays": [], "root": str(tmp_path / "root"), "supervisor": "supervisor", "servers": servers}
    ssh = {"port": port, "connect_timeout": 2, "user": "ada", "config_file": "none"}
    hosts = {"here": {"connection": "local"}, "gone": {"address": "127.0.0.1", "ssh": ssh}}
    file = tmp_path / "hosts.yaml"
    file.write_text(yaml.safe_dump({"defaults": common, "hosts": hosts}))
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / DISTRIBUTION.wheel).write_bytes(b"a wheel")
    record = replace(DISTRIBUTION, wheel_sha256=hashlib.sha256(b"a wheel").hexdigest())
    (dist / "dist.json").write_text(json.dumps(asdict(record)))
    (dist / "lock-cuda.txt").write_text(f"six==1.0 --hash=sha256:{'0' * 64}\n")
    return str(file), str(dist)


@pytest.mark.parametrize(
    ("words", "rows", "here", "more"),
    [
        ("status", "hosts", True, ()),
        ("history", "hosts", True, ()),
        ("unlock", "hosts", True, ()),
        ("doctor", "hosts", True, ()),
        ("plan --dist DIST", "hosts", False, ("command", "distribution")),
        ("diff --dist DIST", "hosts", False, ("command",)),
        ("deploy --dry-run --dist DIST", "hosts", False, ("command", "distribution")),
        ("deploy --yes --dist DIST", "hosts", False, ("command", "distribution")),
        ("rollback --yes", "hosts", False, ("command",)),
        ("prune --yes", "hosts", False, ("command",)),
        ("verify", "servers", True, ("ok",)),
        ("threshold get", "servers", True, ()),
        ("threshold set main 4", "servers", False, ("inventory",)),
        ("start", "servers", False, ()),
        ("stop", "servers", False, ()),
        ("restart", "servers", False, ()),
    ],
)
def test_rows_errors_and_the_exit_code_stand_in_the_same_places(
    words: str, rows: str, here: bool, more: tuple[str, ...], site: tuple[str, str], call: Call
) -> None:
    file, dist = site
    chosen = ("--hosts", "here,gone" if here else "gone")
    answer = call(*words.replace("DIST", dist).split(), "-i", file, *chosen, "--json")
    found = answer.json
    assert set(found) == {rows, "errors", "exit_code", *more}
    assert answer.code == found["exit_code"] == 4
    (error,) = found["errors"]
    assert (error["host"], error["code"], error["exit_code"]) == ("gone", "unreachable", 4)
    assert {"message", "context", "hint"} <= set(error)
    assert isinstance(found[rows], list)
    assert all(row["host"] in ("here", "gone") for row in found[rows])
    assert ("here" in [row["host"] for row in found[rows]]) is here
    if rows == "servers":
        assert all(row["server"] == "main" for row in found[rows])
    assert answer.err.count("unreachable") == 0  # it is in the document


def test_what_ends_a_command_is_one_error_object(call: Call, tmp_path: Path) -> None:
    answer = call("status", "-i", str(tmp_path / "none.yaml"), "--json")
    assert answer.code == answer.json["error"]["exit_code"] == 2
    assert set(answer.json) == {"error"}


def test_an_error_of_logs_is_a_line_as_every_other(
    site: tuple[str, str], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = call("logs", "-i", site[0], "--hosts", "gone", "--json")
    (line,) = answer.out.splitlines()
    assert (answer.code, json.loads(line)["error"]["code"]) == (4, "unreachable")

    def broken(*args: object) -> object:
        raise CommandFailed("it broke", context={"host": "here"})

    monkeypatch.setattr("specctl.cli.logs.service_for", broken)
    answer = call("logs", "-i", site[0], "--json")
    codes = [json.loads(line)["error"]["code"] for line in answer.out.splitlines()]
    assert codes == ["command-failed"] * 2
