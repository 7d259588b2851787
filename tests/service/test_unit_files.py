"""What a unit file says must be what the server gets, whatever is in its arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.config.model import HostConfig, SecretRef, ServerConfig, SshConfig, Supervisor, ThresholdPolicy
from specctl.errors import UsageError
from specctl.service.envfile import render_env_file
from specctl.service.protocol import Unit
from specctl.service.supervisor_conf import SupervisorPaths, render_daemon, render_launcher, render_program
from specctl.service.systemd_unit import exec_line, quote_word, render_unit
from specctl.service.unit import unit_for

SERVER = ServerConfig(
    name="main", model="/models/m", port=30000, gpus=(0, 1), threshold=ThresholdPolicy(disable=16, resume=12)
)
HOST = HostConfig(name="h1", ssh=SshConfig("h1", user="deploy"), servers=(SERVER,), sudo=True)
UNIT = Unit("specctl-main", "SGLang server main", ("/opt/x/bin/python", "-m", "x"), "/opt/x", env={"A": "1"})

# words as a server's arguments could hold them
NASTY = [
    "plain",
    "",
    "two words",
    "tab\there",
    'quote"inside',
    "quote'inside",
    "back\\slash",
    "line\nbreak",
    "100%",
    "%n",
    "$HOME",
    "${HOME}",
    "$$",
    "a;b",
    ";",
    "#no comment",
    "`id`",
    "$(id)",
    "trailing\\",
    "ünïcode 🚀",
    '{"a": ["b", 1.5]}',
    "-",
    "@x",
    "\x01\x7f",
]
# mostly signs that a shell or systemd gives a meaning to
WORDS = st.text(
    st.sampled_from("aA1 \t\n\r$`\"'\\%{}()#;=~!*")
    | st.characters(exclude_characters="\0", exclude_categories=("Cs",)),
    max_size=20,
)


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb", '"a\\nb"'),
        ("100%", "100%%"),
        (";", '";"'),
        ("$HOME", "$HOME"),
        ("ü", '"ü"'),
        ("\x01", '"\\x01"'),
    ],
)
def test_words_are_quoted_by_systemds_rules(word: str, quoted: str) -> None:
    assert quote_word(word) == quoted


def test_dollars_are_doubled_where_systemd_would_expand_them_and_only_there() -> None:
    assert exec_line(("/bin/x", "${HOME}", "$HOME")) == '/bin/x "$${HOME}" $$HOME'
    text = render_unit(replace(UNIT, env={"P": "$HOME %h"}), user_manager=False)
    assert 'Environment="P=$HOME %%h"' in text


@given(word=WORDS)
def test_no_word_can_end_its_line_or_start_another_setting(word: str) -> None:
    assert "\n" not in quote_word(word)
    assert "\r" not in quote_word(word)


def test_a_program_that_systemd_cannot_name_is_refused() -> None:
    for bad in ("python", "/opt/$x/python", ""):
        with pytest.raises(UsageError):
            exec_line((bad,))


@pytest.mark.parametrize("path", ["relative", "/a\nExecStart=/bin/evil", "/a "])
def test_a_path_cannot_smuggle_in_a_setting(path: str) -> None:
    with pytest.raises(UsageError):
        render_unit(replace(UNIT, working_dir=path), user_manager=False)


def test_the_unit_keeps_all_log_lines_and_drains_before_it_kills() -> None:
    lines = render_unit(replace(UNIT, stop_s=90.0), user_manager=False).splitlines()
    for wanted in ("LogRateLimitIntervalSec=1s",
        "LogRateLimitBurst=1000000000", "KillMode=mixed", "TimeoutStopSec=90s", "Type=exec",
                   "Restart=on-failure", "StartLimitBurst=5", "StandardError=journal"):  # fmt: skip
        assert wanted in lines


def test_a_user_unit_names_no_user_and_starts_with_the_user_manager() -> None:
    text = render_unit(replace(UNIT, user="deploy"), user_manager=True)
    assert "User=" not in text
    assert "WantedBy=default.target" in text
    assert "User=deploy" in render_unit(replace(UNIT, user="deploy"), user_manager=False)


def test_the_unit_of_a_server_runs_current_and_carries_no_secret() -> None:
    server = replace(SERVER, secrets={"HF_TOKEN": SecretRef("env", "TOKEN")})
    unit = unit_for(HOST, server)
    assert unit.argv[0] == "/opt/specctl/servers/main/current/venv/bin/python"
    assert unit.argv[-4:] == (
        "--speculative-disable-batch-threshold", "16", "--speculative-resume-batch-threshold", "12",
    )  # fmt: skip
    assert unit.env["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert unit.env["PATH"].startswith("/opt/specctl/servers/main/current/venv/bin:/usr/local/sbin:")
    assert unit.env["SPECCTL_SERVER"] == "/opt/specctl/servers/main"
    assert unit_for(HOST, replace(server, env={"PATH": "/mine"})).env["PATH"] == "/mine"
    assert unit.env_file == "/opt/specctl/servers/main/secrets.env"
    assert unit.user == "deploy"
    assert unit_for(replace(HOST, supervisor=Supervisor.SYSTEMD_USER), server).user is None
    assert unit_for(HOST, SERVER).env_file is None


@given(
    values=st.dictionaries(st.from_regex(r"[A-Z_]{1,6}", fullmatch=True).map("X_".__add__), WORDS, max_size=4)
)
def test_a_shell_reads_the_secrets_file_as_it_was_meant(values: dict[str, str]) -> None:
    values = {k: v for k, v in values.items() if not set(v) & set("\n\r")}
    data = render_env_file(values)
    code = "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if k[:2] == 'X_'}))"
    script = b"set -a\n" + data + b"set +a\nexec " + f"{sys.executable} -c".encode() + b' "$0"'
    out = subprocess.run(["sh", "-c", script, code], env={}, capture_output=True, check=True).stdout
    assert json.loads(out) == values


@pytest.mark.parametrize(("name", "value"), [("X", "a\nb"), ("X", "a\0"), ("A B", "x"), ("1A", "x")])
def test_a_secret_that_the_file_cannot_carry_is_refused_without_showing_it(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        render_env_file({name: value})
    assert value not in str(caught.value) or value == "x"


def test_the_launcher_hands_over_every_argument_and_says_its_invocation(tmp_path: Path) -> None:
    secrets = tmp_path / "se cret.env"
    secrets.write_bytes(render_env_file({"TOKEN": 's"$`\\ecret'}))
    seen = "[sys.argv[1:], os.environ['E'], os.environ['TOKEN'], os.getpid()]"
    code = f"import sys, os, json; print(json.dumps({seen}))"
    unit = replace(
        UNIT,
        argv=(sys.executable, "-c", code, *NASTY),
        working_dir=str(tmp_path),
        env={"E": "a 'b' $c\n"},
        env_file=str(secrets),
    )
    script = tmp_path / "launch.sh"
    script.write_text(render_launcher(unit))
    out = subprocess.run(["sh", str(script)], capture_output=True, check=True).stdout.decode().splitlines()
    argv, env, token, pid = json.loads(out[1])
    assert (argv, env, token) == (NASTY, "a 'b' $c\n", 's"$`\\ecret')
    assert out[0].startswith(f"specctl: invocation {pid}.")
    assert out[0].rsplit(".", 1)[1].isdigit()


def test_a_launcher_whose_secrets_are_missing_does_not_start_the_server(tmp_path: Path) -> None:
    unit = replace(UNIT, argv=("/bin/echo", "started"), working_dir="/", env_file=str(tmp_path / "none"))
    script = tmp_path / "launch.sh"
    script.write_text(render_launcher(unit))
    out = subprocess.run(["sh", str(script)], capture_output=True)
    assert out.returncode != 0
    assert b"started" not in out.stdout


@pytest.mark.parametrize("root", ["/opt/a b", "/opt/a;b", "/opt/a#b", "/opt/a'b", "/opt/a\nb"])
def test_a_root_that_supervisors_configuration_cannot_carry_is_refused(root: str) -> None:
    with pytest.raises(UsageError):
        render_daemon(SupervisorPaths(root))
    with pytest.raises(UsageError):
        render_program(replace(UNIT, working_dir=root, log_file=f"{root}/log"), f"{root}/launch.sh")


def test_supervisors_socket_opens_for_its_own_user_only() -> None:
    assert "chmod=0600" in render_daemon(SupervisorPaths("/opt/specctl"))
    assert os.sep in SupervisorPaths("/opt/specctl/").socket
