"""`specctl hosts` and `specctl completion`, and the options that every verb picks its hosts with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.cases import SERVER
from specctl.cli.main import main

SECRET = "open-sesame"
INVENTORY = f"""
defaults: {{ssh: {{user: root}}}}
groups:
  east: {{hosts: ["gpu-[01:02]"]}}
hosts:
  gpu-[01:02]:
    address: "10.0.0.[1:2]"
    ssh: {{port: 2222, jumps: [{{address: bastion, user: jump}}]}}
    servers:
      - name: main
        model: /m
        port: 30000
        gpus: [0]
        bind: 0.0.0.0
        args: --speculative-algorithm EAGLE
        threshold: {{disable: 16, resume: 14, resume_steps: 4, draft_sync: warm}}
        secrets: {{HF_TOKEN: {{command: "vault read -token={SECRET} x"}}, OTHER: {{env: OTHER}}}}
  no: {{connection: local, supervisor: supervisor, servers: [{SERVER}]}}
"""


def specctl(*args: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The real program, as a user runs it."""
    environ = {k: v for k, v in os.environ.items() if k not in ("SPECCTL_INVENTORY", "COLUMNS")}
    return subprocess.run(
        [sys.executable, "-m", "specctl", *args],
        cwd=cwd, env={**environ, **(env or {})}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inv.yaml").write_text(INVENTORY, encoding="utf-8")
    return tmp_path


def test_the_table_shows_every_server_of_every_expanded_host(folder: Path) -> None:
    done = specctl("hosts", "-i", "inv.yaml", cwd=folder)
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    login = ["root@10.0.0.1:2222", "via", "jump@bastion"]
    assert rows[0] == ["host", "address", "groups", "server", "port", "gpus", "threshold", "supervisor"]
    assert rows[1] == [
        "gpu-01",
        *login,
        "east",
        "main",
        "30000",
        "0",
        ">16,",
        "<=14",
        "x4,",
        "warm",
        "systemd",
    ]
    assert rows[2][:2] == ["gpu-02", "root@10.0.0.2:2222"]
    assert rows[3] == ["no", "(this", "machine)", "-", "main", "30000", "all", "-", "supervisor"]
    assert len(rows) == 4


def test_a_base_that_is_not_known_here_is_told_with_its_line(folder: Path) -> None:
    text = INVENTORY.replace("defaults: {", "defaults: {base: 0.5.8, ")
    (folder / "inv.yaml").write_text(text, encoding="utf-8")
    done = specctl("hosts", "-i", "inv.yaml", cwd=folder)
    assert done.returncode == 0
    assert "inv.yaml:2:18 defaults.base: no base of SGLang 0.5.8 is known here" in done.stderr
    assert "did you mean 0.5.9?" in done.stderr


def test_warnings_go_to_stderr_and_leave_json_whole(folder: Path) -> None:
    done = specctl("hosts", "-i", "inv.yaml", "--json", cwd=folder)
    document = json.loads(done.stdout)
    assert "listens on 0.0.0.0 and asks for no key" in done.stderr
    assert "listens on 0.0.0.0 and asks for no key" in document["warnings"][0]
    assert [host["name"] for host in document["hosts"]] == ["gpu-01", "gpu-02", "no"]
    assert document["groups"] == {"east": ["gpu-01", "gpu-02"]}
    server = document["hosts"][0]["servers"][0]
    assert server["threshold"] == {"disable": 16, "resume": 14, "resume_steps": 4, "draft_sync": "warm"}
    assert server["secrets"] == {"HF_TOKEN": {"command": "vault"}, "OTHER": {"env": "OTHER"}}
    assert document["hosts"][0]["ssh"]["jumps"][0]["address"] == "bastion"
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["--hosts", "gpu-02,no"], ["gpu-02", "no"]),
        (["--hosts", "gpu-02", "--hosts", "no"], ["gpu-02", "no"]),
        (["--group", "east", "--limit", "1"], ["gpu-01"]),
        (["--hosts", "gpu-[01:02]", "--server", "m*"], ["gpu-01", "gpu-02"]),
    ],
)
def test_hosts_are_picked_by_option(folder: Path, args: list[str], names: list[str]) -> None:
    done = specctl("hosts", "-i", "inv.yaml", "--json", *args, cwd=folder)
    assert [host["name"] for host in json.loads(done.stdout)["hosts"]] == names


def test_a_broken_inventory_exits_2_with_every_problem(folder: Path) -> None:
    (folder / "inv.yaml").write_text("hosts:\n  a: {sudoo: yes, servers: []}\n", encoding="utf-8")
    done = specctl("hosts", "-i", "inv.yaml", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "inv.yaml:2:7: hosts.a.sudoo: unknown key 'sudoo' [unknown-key]" in done.stderr
    assert "-> did you mean sudo?" in done.stderr
    assert "inv.yaml:2:28: hosts.a.servers: the list is empty" in done.stderr
    asked_for_json = specctl("hosts", "-i", "inv.yaml", "--json", cwd=folder)
    problems = json.loads(asked_for_json.stdout)["error"]["problems"]
    assert [(p["file"], p["line"], p["path"], p["code"]) for p in problems] == [
        ("inv.yaml", 2, "hosts.a.sudoo", "unknown-key"),
        ("inv.yaml", 2, "hosts.a.servers", "empty"),
    ]


def test_the_inventory_is_found_in_its_usual_places(folder: Path) -> None:
    nothing = specctl("hosts", cwd=folder)
    assert nothing.returncode == 2
    assert "there is no inventory" in nothing.stderr
    one = f"hosts:\n  one: {{servers: [{SERVER}]}}\n"
    (folder / "hosts.yaml").write_text(one, encoding="utf-8")
    assert "one" in specctl("hosts", cwd=folder).stdout
    (folder / "hosts").mkdir()
    (folder / "hosts" / "mine.yaml").write_text(one.replace("one", "two"), encoding="utf-8")
    assert "two" in specctl("hosts", cwd=folder).stdout
    (folder / "hosts" / "mine.yaml").rename(folder / "hosts" / "example.yaml")
    assert "one" in specctl("hosts", cwd=folder).stdout, "the example is nobody's inventory"
    named = specctl("hosts", cwd=folder, env={"SPECCTL_INVENTORY": "inv.yaml"})
    assert "gpu-01" in named.stdout


def test_the_example_is_at_hand_without_the_repository(folder: Path) -> None:
    done = specctl("hosts", "--example", cwd=folder)
    (folder / "mine.yaml").write_text(done.stdout, encoding="utf-8")
    assert specctl("hosts", "-i", "mine.yaml", cwd=folder, env={"HOME": "/home/op"}).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(folder: Path, shell: str) -> None:
    done = specctl("completion", shell, cwd=folder)
    assert done.returncode == 0
    assert f"_SPECCTL_COMPLETE={shell}_complete" in done.stdout


def test_host_names_complete_from_the_inventory(folder: Path) -> None:
    env = {"_SPECCTL_COMPLETE": "bash_complete", "COMP_CWORD": "5"}
    typed = "specctl hosts -i inv.yaml --hosts "
    done = specctl(cwd=folder, env={**env, "COMP_WORDS": f"{typed} gpu-01,g"})
    assert done.stdout.split() == ["plain,gpu-01,gpu-01", "plain,gpu-01,gpu-02"]
    (folder / "inv.yaml").write_text("hosts: [", encoding="utf-8")
    broken = specctl(cwd=folder, env={**env, "COMP_WORDS": f"{typed} g"})
    assert (broken.stdout.strip(), broken.stderr) == ("", "")


@pytest.mark.parametrize("verb", ["hosts", "deploy", "stop", "prune"])
@pytest.mark.parametrize("option", ["--hosts", "--group", "--server"])
@pytest.mark.parametrize("value", ["", ",", "  "])
def test_an_unset_variable_does_not_change_the_whole_fleet(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str, option: str, value: str
) -> None:
    more = {"deploy": ["--dist", str(folder), "--yes"], "prune": ["--yes"]}.get(verb, [])
    words = [verb, "-i", str(folder / "inv.yaml"), option, value, *more]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert f"{option} names no {option.strip('-').removesuffix('s')}" in said.err
    assert "gpu-01" not in said.out + said.err
