"""What `specctl sudoers` prints is taken by sudo as it is meant, whatever is in the names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from config.builders import make_host, make_server

from specctl.cli.main import cli
from specctl.config.model import HostConfig, SshConfig, Supervisor
from specctl.service import granted
from specctl.service.sudoers import escape, grant_for, unit_files
from specctl.service.unit import unit_for

UNITS = {"sudo_units": True, "ssh": SshConfig("h", user="deploy")}


def units_host(*servers: str, **changes: object) -> HostConfig:
    made = tuple(make_server(name, port=30000 + n) for n, name in enumerate(servers or ("main",)))
    return make_host("h1", *made, **{**UNITS, **changes})


@pytest.mark.parametrize(
    ("config", "equals_root", "rules"),
    [
        (units_host(), False, True),
        (make_host(sudo=True, ssh=SshConfig("h", user="deploy")), True, True),
        (make_host(ssh=SshConfig("h", user="root")), True, False),
        (make_host(ssh=SshConfig("h", user="ann"), supervisor=Supervisor.SYSTEMD_USER), False, False),
        (make_host(ssh=SshConfig("h", user="ann"), supervisor=Supervisor.SUPERVISOR), False, False),
    ],
)
def test_it_says_what_the_rules_amount_to(config: HostConfig, equals_root: bool, rules: bool) -> None:
    grant = grant_for(config)
    assert grant.equals_root is equals_root
    assert (grant.sudoers is not None) is rules
    assert ("EQUAL TO ROOT" in (grant.sudoers or "")) is (equals_root and rules)


def test_every_server_gets_its_own_words_and_none_has_a_wildcard() -> None:
    rules = grant_for(units_host("main", "code.v2")).sudoers or ""
    for unit in ("specctl-main.service", "specctl-code.v2.service"):
        for words in ("reset-failed --", "start --", "stop --", r"stop --no-block --"):
            assert f"/usr/bin/systemctl --no-pager --no-ask-password {words} {unit}" in rules
    assert not set("*?[]!^") & set(rules)
    assert "sh" not in {word.rsplit("/", 1)[-1] for word in rules.split()}


def test_a_sign_that_sudoers_would_read_is_escaped() -> None:
    assert escape("a,b:c=d*e f\\") == r"a\,b\:c\=d\*e\ f\\"
    assert escape("--no-block") == "--no-block"


def test_a_deploy_changes_nothing_in_the_unit_that_root_owns() -> None:
    """Arguments, environment and secrets are in the launcher; what decides the account is in the unit."""
    host = units_host()
    one = unit_for(host, make_server("main", args=("--tp-size", "2"), env={"A": "1"}))
    two = unit_for(host, make_server("main", args=(), env={}))
    assert one.argv != two.argv
    assert granted.fixed_unit(one) == granted.fixed_unit(two)
    text = granted.fixed_unit(one).data.decode()
    assert "User=deploy\n" in text
    assert "EnvironmentFile" not in text  # systemd would read it as root, wherever a link there leads


def test_the_setup_writes_the_units_and_the_rules_that_the_service_looks_for(tmp_path: Path) -> None:
    """The script is run for real, with its folders moved below a scratch one and root's tools stubbed."""
    config = units_host(root=str(tmp_path / "it's root"))
    script = grant_for(config).setup or ""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("install", "chown", "usermod", "systemctl", "visudo", "id"):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/called\n')
        (tools / name).chmod(0o755)
    for folder in ("etc/systemd/system", "etc/sudoers.d"):
        (tmp_path / folder).mkdir(parents=True)
    script = script.replace("/etc/", f"{tmp_path}/etc/")
    subprocess.run(["sh", "-c", script], check=True, env={"PATH": f"{tools}:/usr/bin:/bin"})
    for file in unit_files(config):
        assert Path(f"{tmp_path}{file.path}").read_bytes() == file.data
    rules = tmp_path / "etc/sudoers.d/specctl-deploy"
    assert rules.read_text().replace(f"{tmp_path}/etc/", "/etc/") == grant_for(config).sudoers
    assert rules.stat().st_mode & 0o777 == 0o440
    called = (tmp_path / "called").read_text()
    assert f"install -d -o deploy -g  -m 755 {config.root}" in called
    assert "systemctl enable specctl-main.service specctl.undo.service" in called
    assert "visudo -cqf" in called


INVENTORY = """
hosts:
  a: {ssh: {user: deploy}, sudo: units, servers: [{name: main, model: /m, port: 30000}]}
  b: {ssh: {user: ann}, supervisor: systemd-user, root: /home/ann/s,
      servers: [{name: main, model: /m, port: 30000}]}
"""


def test_the_verb_prints_a_file_for_one_host_and_all_of_them_as_json(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(INVENTORY)

    def call(*words: str) -> tuple[object, str]:
        done = CliRunner().invoke(cli, ["sudoers", "-i", str(file), *words])
        return done.exception, done.stdout

    error, out = call("--hosts", "a")
    assert error is None
    assert out == grant_for(make_host("a", make_server("main"), **UNITS)).sudoers
    error, out = call("--hosts", "b")
    assert out.startswith(
        "# b: specctl runs nothing with sudo here; once, root runs: loginctl enable-linger ann"
    )
    assert "one host" in str(call()[0])
    assert "no set-up" in str(call("--hosts", "b", "--setup")[0])
    documents = json.loads(call("--json")[1])["hosts"]
    assert [(d["host"], d["equals_root"]) for d in documents] == [("a", False), ("b", False)]
