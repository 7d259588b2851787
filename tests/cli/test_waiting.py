"""Nobody is left before a silent screen: what is waited for is said."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cli.calling import Call, inventory
from specctl.cli.output import Output
from specctl.cli.waiting import show_waiting
from specctl.cli.watch import _screen
from specctl.host import connection
from specctl.host.errors import Unreachable
from specctl.host.ssh_config import Hop
from specctl.service.protocol import LogSlice, ServiceState


def test_a_host_that_does_not_answer_is_spoken_of_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 0.05)
    show_waiting(Output.create())
    show_waiting(Output.create())  # as a second command in one process would
    with socket.socket() as silent:  # takes the connection, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        hop = Hop("127.0.0.1", "127.0.0.1", port, "ada", (), True, (), "127.0.0.1", False)
        for _ in range(2):
            with pytest.raises(Unreachable):
                connection.open_chain("gpu-1", [hop], 0.4)
    said = capsys.readouterr().err
    assert said.count("gpu-1: still connecting to") == 1
    assert f"127.0.0.1:{port}" in said
    assert "each step may take 0.4 s" in said


def test_what_is_waited_for_is_said_above_a_table_that_is_refreshed_in_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = replace(Output.create(), out=Console(force_terminal=True, width=160, highlight=False))
    with _screen(output, enabled=True):
        connection.log.warning("gpu-1: still connecting", extra={"host": "gpu-1"})
    out, err = capsys.readouterr()
    assert "gpu-1: still connecting" in out  # where rich knows of the table
    assert err == ""


class Service:
    """A server without a line in its log."""

    def __init__(self, *, exists: bool) -> None:
        self.exists = exists

    def state(self) -> ServiceState:
        return ServiceState("main", self.exists, "inactive", "dead")

    def follow(self, on_line: Callable[..., Any], **more: Any) -> None:
        """As if Ctrl-C came at once."""

    def lines_since(self, *args: Any, **more: Any) -> LogSlice:
        return LogSlice((), "journal of main on here")


@pytest.mark.parametrize(
    ("exists", "words", "code", "says"),
    [
        (False, ("-f",), 0, "here main: not deployed yet, so it has no log; waiting for one"),
        (False, (), 1, "main on here has no log: it is not deployed yet"),
        (True, ("-f",), 0, ""),
        (True, (), 0, "here main: no line yet (journal of main on here)"),
    ],
)
def test_an_empty_log_is_said_to_be_empty(
    exists: bool,
    words: tuple[str, ...],
    code: int,
    says: str,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("specctl.cli.logs.service_for", lambda *a: Service(exists=exists))
    answer = call("logs", "-i", str(inventory(tmp_path / "hosts.yaml")), *words)
    assert (answer.code, answer.out) == (code, "")
    assert says in answer.err
    assert bool(says) == bool(answer.err)
