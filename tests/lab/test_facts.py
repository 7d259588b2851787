"""Facts of real hosts."""

from __future__ import annotations

import json
import time

import pytest
from config.builders import make_server

from specctl.host.connect import connect
from specctl.host.facts import Facts, gather

from .hosts import host_config
from .lab import Lab

pytestmark = pytest.mark.lab


def look(lab: Lab, name: str = "h1", **changes: object) -> Facts:
    config = host_config(lab, name, make_server(), **changes)
    host = connect(config)
    try:
        return gather(host, config)
    finally:
        host.close()


def test_a_host_is_described(in_lab: Lab) -> None:
    facts = look(in_lab, root="/srv/app/specctl")
    assert (facts.host, facts.user, facts.uid, facts.sudo) == ("h1", "deploy", 1000, "works")
    assert (facts.os, facts.os_version, facts.glibc, facts.systemd) == ("debian", "12", "2.36", 252)
    assert (facts.system_state, facts.user_manager, facts.linger) == ("running", "running", True)
    assert facts.gpus is None
    assert 22 in facts.ports
    assert abs(facts.skew_s) <= facts.skew_error_s + 0.05
    python = facts.python("python3")
    assert python is not None
    assert (python.path, python.venv, python.ensurepip) == ("/usr/bin/python3", True, True)
    root = facts.folder("root")
    assert root is not None
    assert (root.exists, root.writable, root.read_only, root.mount) == (False, True, False, "/")
    assert 0 < root.free_bytes < 1 << 30
    assert facts.lock is None
    assert facts.problems == ()
    json.dumps(facts.as_dict())


def test_users_differ(in_lab: Lab) -> None:
    assert look(in_lab, ssh={"user": "ops"}).sudo == "refused"
    root = look(in_lab, ssh={"user": "root"})
    assert (root.sudo, root.user_manager) == ("root", "offline") or root.sudo == "root"
    folder = look(in_lab, ssh={"user": "ops"}, root="/opt/specctl").folder("root")
    assert folder is not None
    assert not folder.writable


def test_faults_show(in_lab: Lab) -> None:
    faults = in_lab.faults("h2")
    faults.skew("-2h")
    faults.small("/tmp", "1m")
    faults.read_only("/srv/app")
    facts = look(in_lab, "h2", root="/srv/app/specctl")
    assert facts.skew_s == pytest.approx(-7200, abs=5)
    temporary, root = facts.folder("temporary"), facts.folder("root")
    assert temporary is not None
    assert root is not None
    assert (temporary.free_bytes, temporary.mount) == (1 << 20, "/tmp")
    assert (root.read_only, root.mount) == (True, "/srv/app")


def test_what_lies_below_the_root_is_listed_and_damage_does_not_hurt(in_lab: Lab) -> None:
    machine = in_lab.machine("h1")
    for path, text in {
        "releases/r1/venv/bin/python": "",
        "releases/r1/dist.json": '{"version": "0.5.9+specctl.1"}',
        "releases/r1/COMPLETE": '{"at": 1}',
        "releases/r2/FAILED": "caf\udce9 {",
        "releases/stray": "",
        "lock/info.json": '{"who": "ann", "host": "laptop"}',
    }.items():
        machine.write(f"/srv/app/s/{path}", text)
    for server, release in {"main": "r1", "odd": "gone"}.items():
        machine.shell(f"mkdir -p /srv/app/s/servers/{server}")
        machine.shell(f"ln -s ../../releases/{release} /srv/app/s/servers/{server}/current")
    try:
        facts = look(in_lab, root="/srv/app/s")
    finally:
        machine.shell("rm -rf /srv/app/s")
    first, second, stray = facts.releases
    assert first.id == "r1"
    assert first.documents == {"dist.json": {"version": "0.5.9+specctl.1"}, "COMPLETE": {"at": 1}}
    assert first.python == "/srv/app/s/releases/r1/venv/bin/python"
    assert (second.documents, second.python) == ({"FAILED": None}, None)
    assert (stray.id, stray.entries) == ("stray", ())
    assert [(s.name, s.current, s.resolves) for s in facts.servers] == [
        ("main", "r1", True),
        ("odd", "gone", False),
    ]
    assert facts.lock == {"info.json": {"who": "ann", "host": "laptop"}}


def test_a_host_with_broken_tools_is_still_described(in_lab: Lab) -> None:
    machine = in_lab.machine("h1")
    fake = (
        "#!/bin/sh\n"
        'case "$1" in *compute_cap*) echo "Field is not valid"; exit 2;; esac\n'
        r"printf 'warning: caf\351\n0, NVIDIA H200, 143771, 12, 570.86\nx, y\n'" + "\n"
    )
    machine.write("/usr/local/bin/nvidia-smi", fake, mode="755")
    machine.write("/usr/local/bin/systemctl", "#!/bin/sh\nsleep 100\n", mode="755")
    machine.write("/srv/app/draft/config.json", '{"architectures": ["LlamaForCausalLMEagle3"]}')
    server = make_server(args=("--speculative-draft-model-path=/srv/app/draft",))
    began = time.monotonic()
    try:
        config = host_config(in_lab, "h1", server)
        host = connect(config)
        facts = gather(host, config)
        host.close()
    finally:
        machine.shell("rm -rf /usr/local/bin/nvidia-smi /usr/local/bin/systemctl /srv/app/draft")
    assert time.monotonic() - began < 60
    assert facts.gpus is not None
    assert [(g.index, g.name, g.memory_mib, g.driver, g.compute) for g in facts.gpus] == [
        (0, "NVIDIA H200", 143771, "570.86", None)
    ]
    assert facts.systemd is None
    assert any(problem.startswith("systemctl") for problem in facts.problems)
    draft = facts.model("/srv/app/draft")
    assert draft is not None
    assert draft.architectures == ("LlamaForCausalLMEagle3",)
