"""Rules about the host: each fault is seen, and a good host has nothing to say but ok."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from config.builders import make_host, make_server

from specctl.base.lock import shipped_lock
from specctl.base.store import BaseStore
from specctl.config.model import EnvironmentKind, HostConfig, Supervisor, Target
from specctl.doctor.machine import check_machine
from specctl.doctor.model import Check, Verdict
from specctl.doctor.needs import needs_of
from specctl.host.facts import Facts, PythonFact, ReleaseFact, ServerFact

from .builders import GIB, folder, gpu, make_facts, make_needs


def found(name: str, facts: Facts, config: HostConfig | None = None) -> Check:
    """The one check of a name."""
    (check,) = [c for c in check_machine(config or make_host(), facts, make_needs()) if c.name == name]
    return check


def python(version: str | None, **changes: Any) -> tuple[PythonFact, ...]:
    return (replace(PythonFact("python3", "/usr/bin/python3", version, True, True), **changes),)


USER = {"user": "ann", "uid": 1000, "sudo": "works"}


def test_a_good_host_is_ok_in_everything() -> None:
    checks = check_machine(make_host(), make_facts(), make_needs())
    assert {c.verdict for c in checks} == {Verdict.OK}
    assert {
        "clock",
        "disk root",
        "disk temporary",
        "python",
        "glibc",
        "supervisor",
    } <= {c.name for c in checks}


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "seen"),
    [
        ({"skew_s": -60.0}, "clock", Verdict.WARN, "-60.0 s"),
        ({"skew_s": 3600.0}, "clock", Verdict.FAIL, "+3600.0 s"),
        ({"skew_s": 6.0, "skew_error_s": 6.0}, "clock", Verdict.OK, "+6.0 s"),
        ({"machine": "ppc64le"}, "system", Verdict.FAIL, "ppc64le"),
        ({"glibc": "2.17"}, "glibc", Verdict.FAIL, "2.17; the base needs 2.28"),
        ({"glibc": "2.100"}, "glibc", Verdict.OK, "2.100"),
        ({"glibc": None}, "glibc", Verdict.FAIL, "no GNU C library"),
        ({"pythons": python(None)}, "python", Verdict.FAIL, "python3 is not there"),
        ({"pythons": ()}, "python", Verdict.FAIL, "python3 is not there"),
        ({"pythons": python("3.9.2")}, "python", Verdict.FAIL, "the base needs >=3.10,<3.13"),
        ({"pythons": python("3.13.0")}, "python", Verdict.FAIL, "the base needs"),
        ({"pythons": python("3.10.4", venv=False)}, "python", Verdict.WARN, "without the venv module"),
        ({"systemd": None}, "supervisor", Verdict.FAIL, "no systemd"),
        ({"system_state": "offline"}, "supervisor", Verdict.FAIL, "offline"),
        ({"system_state": "degraded"}, "supervisor", Verdict.WARN, "degraded"),
        ({"gpus": None}, "gpu", Verdict.FAIL, "no nvidia-smi"),
        ({"gpus": ()}, "gpu", Verdict.FAIL, "lists no GPU"),
        ({"gpus": (gpu(driver="550.54.14"),)}, "driver", Verdict.WARN, "CUDA 12.8 asks for 570.26"),
        ({"gpus": (gpu(driver="470.82.01"),)}, "driver", Verdict.FAIL, "CUDA 12.8 needs 570.26"),
        ({"gpus": (gpu(driver="570.26"),)}, "driver", Verdict.OK, "570.26"),
        ({"lock": {"info.json": {"who": "ann"}}}, "lock", Verdict.WARN, "ann"),
        ({"problems": ("systemctl: timed out",)}, "facts", Verdict.WARN, "systemctl: timed out"),
        ({"servers": (ServerFact("main", "r7", False),)}, "current", Verdict.FAIL, "main names r7"),
    ],
)
def test_a_fault_of_the_host_is_seen(changes: dict[str, Any], name: str, verdict: Verdict, seen: str) -> None:
    check = found(name, make_facts(**changes))
    assert check.verdict is verdict
    assert seen in check.seen
    assert bool(check.hint) == (verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("purpose", "path", "changes", "verdict", "seen"),
    [
        ("root", "/opt/specctl", {"read_only": True}, Verdict.FAIL, "mounted read-only"),
        ("root", "/opt/specctl", {"noexec": True}, Verdict.FAIL, "noexec"),
        ("root", "/opt/specctl", {"free_bytes": 11 * GIB}, Verdict.FAIL, "12.0 GiB are needed"),
        ("root", "/opt/specctl", {"free_inodes": 5}, Verdict.FAIL, "only 5 files more"),
        ("root", "/opt/specctl", {"free_inodes": None}, Verdict.OK, "500.0 GiB free"),
        ("root", "/mnt/x", {"mount": "/mnt", "free_bytes": 13 * GIB}, Verdict.OK, "13.0 GiB free on /mnt"),
        ("temporary", "/tmp", {"free_bytes": 64 << 20, "mount": "/tmp"}, Verdict.FAIL, "64 MiB free on /tmp"),
    ],
)
def test_every_folder_that_a_deploy_writes_to_is_looked_at(
    purpose: str, path: str, changes: dict[str, Any], verdict: Verdict, seen: str
) -> None:
    others = tuple(f for f in make_facts().folders if f.purpose != purpose)
    check = found(f"disk {purpose}", make_facts(folders=(*others, folder(purpose, path, **changes))))
    assert check.verdict is verdict
    assert seen in check.seen


def test_an_adopted_environment_needs_little_disk() -> None:
    config = make_host(environment=EnvironmentKind.ADOPTED, adopt="/opt/venv")
    folders = (folder("root", "/opt/specctl", free_bytes=GIB, free_inodes=60_000),)
    checks = check_machine(config, make_facts(folders=folders), make_needs())
    assert [c.verdict for c in checks if c.name.startswith("disk")] == [Verdict.OK]


def test_a_folder_of_another_user_needs_sudo() -> None:
    facts = make_facts(**USER, folders=(folder("root", "/opt/specctl", writable=False),))
    assert found("disk root", facts).verdict is Verdict.FAIL
    assert found("disk root", facts, make_host(sudo=True)).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("changes", "verdict", "hint"),
    [
        ({}, Verdict.OK, None),
        ({"linger": False}, Verdict.FAIL, "enable-linger ann"),
        ({"user_manager": None}, Verdict.FAIL, "enable-linger ann"),
    ],
)
def test_user_units_need_a_manager_that_outlives_the_login(
    changes: dict[str, Any], verdict: Verdict, hint: str | None
) -> None:
    check = found("supervisor", make_facts(**USER, **changes), make_host(supervisor=Supervisor.SYSTEMD_USER))
    assert check.verdict is verdict
    assert hint is None or hint in str(check.hint)


def test_a_rehearsal_on_a_cpu_needs_no_gpu() -> None:
    checks = check_machine(make_host(target=Target.CPU), make_facts(gpus=None), make_needs(cuda=None))
    assert {c.verdict for c in checks} == {Verdict.OK}


def test_ninja_is_missed_unless_the_servers_path_leads_to_the_locks_own() -> None:
    without = make_facts(tools={"ninja": None})
    own_path = make_host("gpu-01", make_server(env={"PATH": "/usr/bin"}))
    assert found("ninja", without, own_path).verdict is Verdict.WARN
    assert found("ninja", make_facts(), own_path).verdict is Verdict.OK
    assert "ninja" not in [c.name for c in check_machine(make_host(), without, make_needs())]
    adopted = make_host("gpu-01", environment=EnvironmentKind.ADOPTED, adopt="/opt/venv")
    assert found("ninja", without, adopted).verdict is Verdict.WARN


def test_releases_alone_are_no_finding() -> None:
    release = ReleaseFact("r1", ("COMPLETE",), {}, None)
    facts = make_facts(releases=(release,), servers=(ServerFact("main", "r1", True),))
    assert {c.verdict for c in check_machine(make_host(), facts, make_needs())} == {Verdict.OK}


def test_the_shipped_base_says_which_driver_it_needs() -> None:
    base = BaseStore.discover().get("0.5.9")
    needs = needs_of(base, shipped_lock(base, "cuda"), cuda=True)
    assert needs.cuda == (12, 8)
    assert needs.driver == (570, 26)
    assert needs.glibc == (2, 28)
    assert needs_of(base, shipped_lock(base, "cpu"), cuda=False).driver is None
