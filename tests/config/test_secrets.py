"""Secrets are read when needed, and nothing shows them: no error, no text form, no plan."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from config.builders import make_server
from config.cases import parse
from specctl.config.model import SecretRef
from specctl.config.secrets import Printed, Secret, SecretError, resolve_secret, secret_file_bytes
from specctl.exits import ExitCode

VALUE = "open-sesame"
ENV = SecretRef("env", "MY_KEY")


def never(argv: Sequence[str]) -> Printed:
    raise AssertionError("no command may run")


def test_a_secret_comes_from_the_environment() -> None:
    assert resolve_secret(ENV, environ={"MY_KEY": VALUE}, run=never).reveal() == VALUE


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_comes_from_a_file_without_its_line_end(tmp_path: Path, end: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(f"{VALUE} {end}".encode())
    assert resolve_secret(SecretRef("file", str(path)), environ={}, run=never).reveal() == f"{VALUE} "


def test_a_secret_comes_from_a_command_that_no_shell_reads() -> None:
    seen: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> Printed:
        seen.append(argv)
        return Printed(0, f"{VALUE}\n".encode())

    ref = SecretRef("command", "pass show 'my key' $HOME | cat")
    assert resolve_secret(ref, environ={}, run=run).reveal() == VALUE
    assert seen == [["pass", "show", "my key", "$HOME", "|", "cat"]]


def test_a_command_really_runs_on_this_machine() -> None:
    ref = SecretRef("command", f"{sys.executable} -c 'print(6 * 7)'")
    assert resolve_secret(ref, environ={}).reveal() == "42"


def test_a_command_in_the_inventory_is_one_text_or_a_list_of_words() -> None:
    text = """
        hosts:
          a:
            servers:
              - name: s
                model: /m
                port: 30000
                secrets: {T: {command: [pass, show, my key]}, U: {command: pass show 'my key'}}
    """
    secrets = parse(text).hosts[0].servers[0].secrets
    assert secrets["T"] == secrets["U"] == SecretRef("command", "pass show 'my key'")


def raises_timeout(argv: Sequence[str]) -> Printed:
    raise subprocess.TimeoutExpired(list(argv), 60, output=VALUE.encode())


def raises_missing(argv: Sequence[str]) -> Printed:
    raise FileNotFoundError(2, "No such file or directory", argv[0])


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (lambda argv: Printed(1, VALUE.encode()), "vault ended with exit code 1"),
        (raises_timeout, "vault did not end within 60 s"),
        (raises_missing, "vault cannot be started"),
        (lambda argv: Printed(0, b"\n"), "the secret is empty"),
        (lambda argv: Printed(0, VALUE.encode() + b"\nline two\n"), "more than one line"),
        (lambda argv: Printed(0, VALUE.encode() + b"\x00"), "control characters"),
        (lambda argv: Printed(0, VALUE.encode() + b"\xff"), "not UTF-8"),
        (lambda argv: Printed(0, VALUE.encode() * 5000), "more than 16,384 bytes"),
    ],
    ids=["exit code", "timeout", "missing", "empty", "two lines", "nul", "not utf-8", "too long"],
)
def test_a_secret_that_cannot_be_used_is_refused_without_showing_it(output: object, told: str) -> None:
    ref = SecretRef("command", f"vault read -token={VALUE}-token")
    with pytest.raises(SecretError) as caught:
        resolve_secret(ref, environ={}, run=output)  # type: ignore[arg-type]
    error = caught.value
    assert told in error.message
    assert error.hint
    assert error.exit_code is ExitCode.USAGE
    shown = f"{error.as_dict()} {''.join(traceback.format_exception(error))}"
    assert VALUE not in shown


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        (ENV, "the variable MY_KEY is not set"),
        (SecretRef("file", "/nonexistent/key"), "cannot read /nonexistent/key"),
        (SecretRef("command", "a 'b"), "open quote"),
        (SecretRef("command", " "), "the command is empty"),
        (SecretRef("vault", "x"), "cannot come from 'vault'"),
    ],
)
def test_a_reference_to_nothing_says_what_is_missing(ref: SecretRef, told: str) -> None:
    with pytest.raises(SecretError, match=told):
        resolve_secret(ref, environ={}, run=never)


def test_no_text_form_of_a_secret_shows_it() -> None:
    secret = Secret(VALUE)
    forms = [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{[secret]}", "%s" % secret,  # noqa: UP031
             json.dumps({"a": secret}, default=str)]  # fmt: skip
    assert not any(VALUE in form for form in forms)
    assert all("***" in form for form in forms)
    assert not hasattr(secret, "__dict__")
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        copy.copy(secret)
    with pytest.raises(TypeError):
        hash(secret)
    assert secret == Secret(VALUE)
    assert secret != Secret("other")
    assert secret != VALUE


@example("-x")
@example('"\\: #')
@example("no")
@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60))
def test_the_file_of_secret_arguments_reads_back_as_the_same_text(value: str) -> None:
    server = make_server(secret_args={"--api-key": ENV}, secret_file="/f")
    if value.startswith("-"):
        with pytest.raises(SecretError, match="begins with a dash"):
            secret_file_bytes(server, {"--api-key": Secret(value)})
    else:
        data = secret_file_bytes(server, {"--api-key": Secret(value)})
        assert yaml.safe_load(data.decode("utf-8")) == {"api-key": value}


def test_a_secret_argument_without_its_value_is_refused() -> None:
    server = make_server(secret_args={"--api-key": ENV, "--admin-api-key": ENV}, secret_file="/f")
    with pytest.raises(SecretError, match="--admin-api-key has no value"):
        secret_file_bytes(server, {"--api-key": Secret("x")})
