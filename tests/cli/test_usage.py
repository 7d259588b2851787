"""A wrong command line is told in the one style of errors, with what was likely meant."""

from __future__ import annotations

import pytest
from click.shell_completion import BashComplete

from cli.calling import Call
from specctl.cli.main import cli
from specctl.exits import ExitCode


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        ("depoly", "No such command 'depoly'", "did you mean deploy?"),
        ("xyzzy", "No such command 'xyzzy'", "specctl --help"),
        ("overlay sttus", "No such command 'sttus'", ""),
        ("deploy --hots x", "No such option", "did you mean --hosts?"),
        ("hosts --limit x", "'x' is not a valid integer range", "specctl hosts --help"),
        ("hosts --limit", "requires an argument", "specctl --help"),
        ("threshold set main", "Missing argument 'N'", "specctl threshold set --help"),
        ("completion bsh", "'bsh' is not one of", "specctl completion --help"),
    ],
)
def test_a_wrong_command_line_is_an_error_as_every_other(
    words: str, says: str, hint: str, call: Call
) -> None:
    answer = call(*words.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error [usage]: ")
    assert says in answer.err
    assert f"hint: {hint}" in answer.err


def test_a_wrong_command_line_with_json_is_an_error_object(call: Call) -> None:
    told = call("hosts", "--limit", "x", "--json").json["error"]
    assert (told["code"], told["exit_code"]) == ("usage", 2)
    assert "'x' is not a valid integer range" in told["message"]


def test_no_verb_prints_the_help_and_every_exit_code(call: Call) -> None:
    answer = call()
    assert answer.code == 2
    assert "Usage: specctl" in answer.err
    helped = call("--help")
    assert helped.code == 0
    for code in ExitCode:
        assert f"{int(code)} " in helped.out
        assert code.meaning.split(";")[0] in " ".join(helped.out.split())


def test_what_looks_like_an_option_behind_the_dashes_is_the_servers(call: Call) -> None:
    answer = call("route", "--base", "0", "--", "--json")
    assert answer.err.startswith("error [unknown-base]")


def test_a_shell_completes_behind_a_word_that_is_no_verb_without_an_error() -> None:
    bash = BashComplete(cli, {}, "specctl", "_SPECCTL_COMPLETE")
    assert "deploy" in [item.value for item in bash.get_completions([], "depl")]
    bash.get_completions(["xyzzy"], "")
