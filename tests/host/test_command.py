"""Commands are words, put together without a shell in between."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.host.command import line, python, shown, wrap

PLAIN = ("sh", "-c", 'umask 022; "$@"; exit $?', "sh")


def test_layers_come_in_the_order_that_works() -> None:
    words = wrap(["id", "-u"], sudo=True, env={"A": "1 2"}, cwd="/x y", deadline_s=1.2)
    assert words[:9] == ("sudo", "-n", "-H", "--", "timeout", "-k", "5", "2", "env")
    assert words[9:13] == ("A=1 2", "sh", "-c", words[12])
    assert words[13:] == ("sh", "/x y", "id", "-u")


def test_nothing_asked_for_is_just_the_command_in_a_shell() -> None:
    assert wrap(["id"]) == (*PLAIN, "id")


@pytest.mark.parametrize("argv", [[], ["a\0b"]])
def test_what_is_no_command_is_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="command"):
        wrap(argv)


@pytest.mark.parametrize("name", ["", "1A", "A B", "A;rm", "A=B", "Ä", "A\n"])
def test_a_name_that_is_no_variable_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="environment variable"):
        wrap(["id"], env={name: "x"})


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20), max_size=4
    )
)
def test_every_word_survives_the_shell(words: list[str]) -> None:
    argv = ["printf", "%s\\0", *words]
    assert shlex.split(line(argv)) == argv
    done = subprocess.run(["sh", "-c", line(wrap(argv))], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words or [""])


def test_a_long_command_is_cut_for_people() -> None:
    assert shown(["echo", "a\nb"]) == "echo 'a\\nb'"
    assert len(shown(["x" * 1000])) == 300


def test_the_first_interpreter_that_is_there_runs_the_program() -> None:
    words = python("print(1)", ["no-such-python", "python3"])
    assert subprocess.run(words, capture_output=True, check=True).stdout == b"1\n"
    assert subprocess.run(python("print(1)", ["no-such-python"]), check=False).returncode == 127
