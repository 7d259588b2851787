"""Hosts that doctor fails are refused before anything is sent to them, in doctor's words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from config.builders import make_host
from doctor.builders import GIB, folder, gpu, make_facts

from specctl.config.model import EnvironmentKind, HostConfig, Supervisor, Target
from specctl.exits import ExitCode
from specctl.host.facts import PythonFact
from specctl.host.fake import ScriptedHost
from specctl.release.errors import PlanRefused
from specctl.release.fitness import check_fit
from specctl.release.state import HostState, ReleaseState
from specctl.release.wiring import installer_on

HOST = make_host()
ADOPTING = make_host(environment=EnvironmentKind.ADOPTED, adopt="/opt/env/")
PYTHON = PythonFact("python3", "/usr/bin/python3", "3.12.3", True, True)
THEIRS = replace(PYTHON, name="/opt/env/bin/python", path="/opt/env/bin/python")
INSTALLED = HostState(exists=True, releases={"r": ReleaseState("r", complete=True)})
CUT_OFF = HostState(exists=True, releases={"r": ReleaseState("r", complete=False)})
BRINGING = make_host(supervisor=Supervisor.SUPERVISOR)
BROUGHT = HostState(exists=True, supervisor=True)
NO_PIP = {"pythons": (replace(PYTHON, ensurepip=False),)}
HIDDEN = ("/opt/env/bin/python: [Errno 13] Permission denied: '/opt/env/bin/python'",)
FULL = {"folders": (folder("root", "/opt/specctl", free_bytes=2 * GIB, free_inodes=60_000),)}


def refusal(
    facts: dict[str, Any],
    host: HostConfig = HOST,
    *,
    state: HostState = INSTALLED,
    uv: str | None = "/uv",
    packages: int = 900,
) -> str | None:
    try:
        check_fit(host, make_facts(**facts), state, uv, packages)
    except PlanRefused as exc:
        return exc.message
    return None


@pytest.mark.parametrize(
    ("facts", "more", "said"),
    [
        ({"pythons": ()}, {}, "python: python3 is not there"),
        ({"pythons": (replace(PYTHON, version="3.9.2"),)}, {}, "is 3.9.2; the base needs"),
        ({"glibc": "2.17"}, {}, "glibc: 2.17; the base needs"),
        ({"machine": "ppc64le"}, {}, "system: "),
        ({"gpus": None}, {}, "gpu: no nvidia-smi"),
        ({"systemd": None}, {}, "supervisor: no systemd"),
        (FULL, {"state": HostState()}, "disk root: /opt/specctl: 2.0 GiB free on /, 12.0 GiB are needed"),
        ({"folders": (folder("root", "/opt/specctl", read_only=True),)}, {}, "mounted read-only"),
        ({"pythons": (replace(PYTHON, ensurepip=False),)}, {"uv": None}, "without ensurepip"),
        ({"pythons": (replace(PYTHON, venv=False),)}, {"uv": None}, "without the venv module"),
        ({"pythons": (PYTHON,)}, {"host": ADOPTING}, "python: /opt/env/bin/python is not there"),
        ({"pythons": (PYTHON, replace(THEIRS, venv=False))}, {"host": ADOPTING}, "without the venv module"),
        (NO_PIP, {"host": BRINGING}, "supervisor needs"),
        ({"system_state": "offline"}, {}, "supervisor: systemd 255, offline"),
    ],
)
def test_a_host_on_which_an_installation_could_only_fail_is_refused(
    facts: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    assert said in (refusal(facts, **more) or "")


@pytest.mark.parametrize(
    ("facts", "more"),
    [
        ({}, {}),
        (FULL, {}),  # the next release shares the files of the one that is there
        (FULL, {"state": HostState(), "packages": 9}),  # much shorter than the base's lock
        ({"pythons": (replace(PYTHON, venv=False, ensurepip=False),)}, {}),  # uv needs neither
        ({"pythons": (replace(PYTHON, ensurepip=False),)}, {"uv": None, "host": ADOPTING, "pythons": 1}),
        ({"skew_s": 3600.0}, {}),
        ({"gpus": (gpu(driver="470.1"),)}, {}),  # a newer compatibility package may make up for it
        ({"gpus": None}, {"host": make_host(target=Target.CPU)}),
        ({"systemd": None}, {"host": make_host(supervisor=Supervisor.SUPERVISOR)}),
        ({"glibc": "2.17", "pythons": (PYTHON, THEIRS)}, {"host": ADOPTING}),
        ({"linger": False}, {"host": make_host(supervisor=Supervisor.SYSTEMD_USER)}),  # the unit turns it on
        ({"system_state": ""}, {"host": make_host(sudo=True)}),  # no bus for users; root needs none
        ({"gpus": (), "problems": ("nvidia-smi: timed out after 30 seconds",)}, {}),
        ({"pythons": (PYTHON,), "problems": HIDDEN}, {"host": replace(ADOPTING, sudo=True)}),
        (FULL, {"state": CUT_OFF}),  # its packages are in the cache
        (NO_PIP, {"host": BRINGING, "state": BROUGHT}),
        ({"glibc": "2.17"}, {"host": make_host(base="7.0")}),  # nobody here knows what that needs
    ],
)
def test_a_host_on_which_it_may_succeed_is_not_refused(facts: dict[str, Any], more: dict[str, Any]) -> None:
    if more.pop("pythons", None):
        facts = {"pythons": (PYTHON, replace(THEIRS, ensurepip=False))}
    assert refusal(facts, **more) is None


def test_a_plan_that_would_install_refuses_such_a_host_with_the_one_question_it_asks_anyway() -> None:
    host = ScriptedHost("gpu-01")
    least = {"clock": 0.0, "user": "ann", "uid": 0, "host_python": "3.11.2", "sudo": "root"}
    host.on_script("nvidia-smi", least)
    with pytest.raises(PlanRefused, match="python: python3 is not there") as caught:
        installer_on(host, HOST, HostState(), 900)
    assert {"glibc", "supervisor", "gpu"} <= set(caught.value.context)
    assert "specctl doctor --hosts gpu-01" in str(caught.value.hint)
    assert caught.value.exit_code is ExitCode.USAGE
    assert len(host.calls) == 1
