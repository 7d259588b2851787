"""The scripted host that other tests lean on does what it says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from specctl.host.errors import CommandFailed, Unreachable
from specctl.host.fake import ScriptedHost, UnexpectedCall
from specctl.host.protocol import Host


def test_rules_are_tried_in_order_and_used_up() -> None:
    host = ScriptedHost()
    host.on("systemctl", "start", "*", exit_code=1, stderr="no", times=1)
    host.on("systemctl", "...", stdout="ok")
    with pytest.raises(CommandFailed) as caught:
        host.run(["systemctl", "start", "a"])
    assert caught.value.context["output"] == "no"
    assert host.run(["systemctl", "start", "a"], sudo=True, env={"A": "1"}).stdout == b"ok"
    assert host.commands == [("systemctl", "start", "a")] * 2
    assert (host.calls[1].sudo, host.calls[1].env) == (True, {"A": "1"})


def test_what_no_rule_answers_fails_the_test() -> None:
    host: Host = ScriptedHost()
    with pytest.raises(UnexpectedCall, match="rm -rf /"):
        host.run(["rm", "-rf", "/"])
    with pytest.raises(UnexpectedCall):
        host.script("print(1)", {})


def test_files_live_in_memory(tmp_path: Path) -> None:
    host = ScriptedHost(files={"/a": b"12345"})
    (tmp_path / "f").write_bytes(b"new")
    sha256 = hashlib.sha256(b"new").hexdigest()
    assert host.read("/a", limit=2) == b"12"
    assert host.read("/b") is None
    assert host.put(tmp_path / "f", "/b", sha256=sha256, mode=0o755) is True
    assert host.put(tmp_path / "f", "/b", sha256=sha256) is False
    host.write(b"x", "/c", mode=0o600)
    assert host.files == {"/a": b"12345", "/b": b"new", "/c": b"x"}
    assert host.modes == {"/a": 0o644, "/b": 0o644, "/c": 0o600}
    with pytest.raises(UnexpectedCall, match="hash"):
        host.put(tmp_path / "f", "/d", sha256="0" * 64)


def test_streams_stop_when_told_and_breaks_break_once() -> None:
    host = ScriptedHost()
    host.on("journalctl", stdout=b"a\nb\nc\n", exit_code=3)
    seen: list[bytes] = []
    assert host.stream(["journalctl"], lambda line: seen.append(line)) == 3
    assert host.stream(["journalctl"], lambda line: False) == -1
    assert seen == [b"a", b"b", b"c"]
    host.break_at("stream", Unreachable("gone"))
    with pytest.raises(Unreachable):
        host.stream(["journalctl"], lambda line: True)
    assert host.stream(["journalctl"], lambda line: True) == 3


def test_scripts_are_answered_by_what_their_source_holds() -> None:
    host = ScriptedHost()
    host.on_script("first", 1)
    host.on_script("second", lambda params: params["x"])
    assert host.script("# the first", {}) == 1
    assert host.script("# the second", {"x": [2]}) == [2]
    assert host.calls[-1].params == {"x": [2]}
