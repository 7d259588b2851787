"""`specctl doctor` on real hosts, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from specctl.exits import ExitCode

from .lab import Lab

pytestmark = pytest.mark.lab

Doctor = Callable[..., tuple[int, dict[str, Any]]]


def inventory(lab: Lab, path: Path, *names: str, **changes: Any) -> Path:
    """An inventory of lab hosts that rehearse on the CPU as `deploy`."""
    ssh = {
        "user": "deploy",
        "identity_file": str(lab.key),
        "known_hosts": str(lab.known_hosts),
        "config_file": "none",
        "connect_timeout": 3,
        "command_timeout": 20,
        **changes.pop("ssh", {}),
    }
    server = {"name": "main", "model": "/srv/app/target", "port": 30000, "args": changes.pop("args", [])}
    defaults = {"target": "cpu", "root": "/srv/app/specctl", "sudo": True, "ssh": ssh, **changes}
    hosts = {name: {"address": lab.machine(name).address, "servers": [server]} for name in names}
    path.write_text(yaml.safe_dump({"defaults": defaults, "hosts": hosts}))
    return path


@pytest.fixture(scope="module")
def roomy(lab: Lab) -> Iterator[str]:
    """The name of a host whose disk holds a CPU environment, and a model."""
    with lab.inside():
        machine = lab.add(disk="12G")
        machine.write("/srv/app/target/config.json", '{"architectures": ["LlamaForCausalLM"]}')
        yield machine.name
        lab.remove(machine)


@pytest.fixture
def doctor(in_lab: Lab, tmp_path: Path) -> Doctor:
    """Runs the command and returns its exit code and its JSON."""

    def run(*names: str, **changes: Any) -> tuple[int, dict[str, Any]]:
        path = inventory(in_lab, tmp_path / "hosts.yaml", *names, **changes)
        words = [sys.executable, "-m", "specctl", "doctor", "-i", str(path), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.stdout, done.stderr
        said = [line for line in done.stderr.splitlines() if ": still connecting to " not in line]
        assert not said  # no library's traceback, no warning
        return done.returncode, json.loads(done.stdout)

    return run


def checks(document: dict[str, Any], name: str = "") -> dict[str, dict[str, Any]]:
    """The checks of the only host, or of one host, by name."""
    (host,) = [h for h in document["hosts"] if name in ("", h["host"])]
    return {check["name"]: check for check in host["checks"]}


def test_a_host_that_is_ready_is_exit_0(doctor: Doctor, roomy: str) -> None:
    code, document = doctor(roomy)
    doubtful = {
        name: check["verdict"] for name, check in checks(document).items() if check["verdict"] != "ok"
    }
    # with sudo: true the user whom the servers run as is root by sudo, which is said
    assert (code, doubtful) == (ExitCode.OK, {"account": "warn"})
    assert document["hosts"][0]["ok"] is True
    assert document["hosts"][0]["advice"]["kind"] == "locked"


def test_what_a_deploy_would_trip_over_is_exit_1_with_each_cause(in_lab: Lab, doctor: Doctor) -> None:
    faults = in_lab.faults("h2")
    faults.skew("-2h")
    faults.small("/tmp", "1m")
    faults.read_only("/srv/app")
    code, document = doctor("h2", ssh={"user": "ops"})
    found = {name: check for name, check in checks(document).items() if check["verdict"] == "fail"}
    assert code == ExitCode.FAILED
    assert set(found) == {"clock", "sudo", "disk root", "disk temporary", "model"}
    assert "read-only" in found["disk root"]["seen"]
    assert "1 MiB free on /tmp" in found["disk temporary"]["seen"].replace("1024 KiB", "1 MiB")
    assert all(check["hint"] for check in found.values())


def test_one_dead_host_of_three_is_exit_4_in_time_and_the_others_are_examined(
    in_lab: Lab, doctor: Doctor
) -> None:
    in_lab.faults("h2").black_hole()
    began = time.monotonic()
    code, document = doctor("h1", "h2", "h3")
    assert time.monotonic() - began < 30
    assert code == ExitCode.UNREACHABLE
    assert [host["reachable"] for host in document["hosts"]] == [True, False, True]
    (check,) = checks(document, "h2").values()
    assert (check["name"], check["verdict"]) == ("reach", "fail")
    assert "does not answer" in check["seen"]
    assert len(checks(document, "h1")) > 8


def test_a_host_key_that_changed_is_exit_4_and_says_so(in_lab: Lab, doctor: Doctor, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(f"{in_lab.machine('h1').address} {in_lab.machine('h2').host_key}\n")
    code, document = doctor("h1", ssh={"known_hosts": str(known)})
    assert code == ExitCode.UNREACHABLE
    assert "has changed" in checks(document)["reach"]["seen"]
    assert "ssh-keygen -R" in checks(document)["reach"]["hint"]


def test_an_environment_that_does_not_import_is_seen_by_importing_it(
    in_lab: Lab, doctor: Doctor, roomy: str
) -> None:
    machine = in_lab.machine(roomy)
    machine.shell("python3 -m venv --without-pip /srv/app/adopted")
    site = "/srv/app/adopted/lib/python3.11/site-packages"
    machine.write(
        f"{site}/torch/__init__.py", "raise ImportError('libtorch_cuda.so: undefined symbol: _ZN3c10')"
    )
    machine.write(f"{site}/sglang/__init__.py", "")
    machine.write(
        f"{site}/sglang-0.5.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.9\n"
    )
    code, document = doctor(roomy, environment="adopted", adopt="/srv/app/adopted")
    found = checks(document)
    assert code == ExitCode.FAILED
    assert "undefined symbol: _ZN3c10" in found["environment /srv/app/adopted"]["seen"]
    assert found["environment kind"]["verdict"] == "warn"
    assert "torch do not import" in found["environment kind"]["seen"]
    machine.write(
        f"{site}/torch/__init__.py",
        "class version: cuda = None\nclass cuda:\n is_available = device_count = lambda: 0",
    )
    code, document = doctor(roomy, environment="adopted", adopt="/srv/app/adopted")
    assert (code, checks(document)["environment kind"]["verdict"]) == (ExitCode.OK, "ok")


def test_people_get_a_table_with_what_to_do(in_lab: Lab, tmp_path: Path) -> None:
    path = inventory(in_lab, tmp_path / "hosts.yaml", "h1")
    words = [sys.executable, "-m", "specctl", "doctor", "-i", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == ExitCode.FAILED
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[0].startswith("h1: ")
    assert any(line.startswith("fail  main: model") for line in lines)
    assert any(line.strip() == "-> copy the model there, or correct the path" for line in lines)
    assert done.stderr == ""
