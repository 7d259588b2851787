"""What is shown can be read: without colour where none is wanted, and on a narrow terminal."""

from __future__ import annotations

import pytest

from cli.calling import Call
from specctl.cli.evidence_view import show_report
from specctl.cli.output import Output
from specctl.evidence.model import Evidence, Kind, Report, Verdict

COLUMNS = ("host", "server", "release", "state", "process", "rollback to", "drift")
ROWS = [(f"gpu-{n}", "main", "0.5.9+specctl.1-1a2b3c4d", "good", "running", "-", "-") for n in (1, 2)]


@pytest.mark.parametrize(
    ("words", "env", "styled"),
    [
        ((), {}, False),  # a pipe
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (("--no-color",), {"FORCE_COLOR": "1"}, False),
        (("--color",), {}, True),
        (("--color",), {"NO_COLOR": "1"}, True),
    ],
)
def test_colour_and_bold_are_there_when_they_are_wanted_and_only_then(
    words: tuple[str, ...],
    env: dict[str, str],
    styled: bool,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert ("\x1b[" in call(*words, "status", "-i", "/no/such/file").err) is styled
    Output.create(color={"--color": True, "--no-color": False}[words[0]] if words else None).table(
        COLUMNS, ROWS
    )
    assert ("\x1b[" in capsys.readouterr().out) is styled


@pytest.mark.parametrize(("columns", "lines"), [("200", 3), ("40", 15)])
def test_a_table_that_does_not_fit_becomes_a_few_lines_for_each_row(
    columns: str, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    Output.create().table(COLUMNS, ROWS, title=None)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == lines
    assert max(map(len, said)) <= int(columns)
    assert any("0.5.9+specctl.1-1a2b3c4d" in line for line in said)  # whole


@pytest.mark.parametrize("columns", ["120", "40"])
def test_evidence_is_read_in_whole_words_on_a_narrow_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    one = Evidence(
        Kind.INSTALL, Verdict.FAIL, "install-nothing", "a deployed release", "no release", "/srv", "deploy"
    )
    show_report(Report("h1", "main", "", "now", (one,)), Output.create())
    said = capsys.readouterr().out
    for word in ("h1 main: not proven", "fail", "[install-nothing]", "a deployed release", "/srv", "deploy"):
        assert word in said
