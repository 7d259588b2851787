"""The environment that serves: imported for real, and which kind fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from config.builders import make_host

from specctl.config.model import EnvironmentKind, HostConfig, Target
from specctl.doctor.environment import Environment, advise, check_advice, folders, inspect, judge
from specctl.doctor.model import Verdict
from specctl.host.errors import CommandFailed, HostTimeout, Unreachable
from specctl.host.facts import PythonFact, ReleaseFact, ServerFact
from specctl.host.fake import ScriptedHost

from .builders import make_facts, make_needs

PACKAGES = {
    "sglang": "0.5.9",
    "torch": "2.9.1",
    "sgl-kernel": "0.3.21",
    "sglang-kernel": None,
    "flashinfer-python": "0.6.3",
}
GOOD = Environment(
    "/opt/venv",
    PACKAGES,
    dict.fromkeys(("torch", "sgl_kernel", "flashinfer", "sglang")),
    {"build": "12.8", "available": True, "count": 1},
    4.2,
)
UNDEFINED = "ImportError: undefined symbol: _ZN3c104cuda9SetDevice"
ADOPTING = make_host(environment=EnvironmentKind.ADOPTED, adopt="/opt/venv")


def test_a_good_environment_is_told_with_its_versions() -> None:
    (check,) = judge(ADOPTING, GOOD, make_needs())
    assert check.verdict is Verdict.OK
    assert "sglang 0.5.9, torch 2.9.1, sgl-kernel 0.3.21, flashinfer-python 0.6.3" in check.seen


@pytest.mark.parametrize(
    ("changes", "verdict", "seen"),
    [
        ({"imports": {"sgl_kernel": UNDEFINED}}, Verdict.FAIL, "the kernels does not import: ImportError"),
        (
            {"packages": {**PACKAGES, "torch": "2.8.0"}},
            Verdict.WARN,
            "torch is 2.8.0, 0.5.9 was built with 2.9.1",
        ),
        ({"packages": {**PACKAGES, "sgl-kernel": None}}, Verdict.WARN, "sgl-kernel is missing"),
        ({"packages": {**PACKAGES, "torch": "2.9.1+cu128"}}, Verdict.OK, "torch 2.9.1+cu128"),
        ({"packages": {**PACKAGES, "sglang-kernel": "0.4.1"}}, Verdict.FAIL, "both installed"),
        ({"cuda": {"available": False}}, Verdict.FAIL, "sees no GPU"),
        ({"broken": "there is no /opt/venv/bin/python"}, Verdict.FAIL, "there is no"),
    ],
)
def test_packages_that_were_not_built_for_each_other_are_seen(
    changes: dict[str, Any], verdict: Verdict, seen: str
) -> None:
    (check,) = judge(ADOPTING, replace(GOOD, **changes), make_needs())
    assert check.verdict is verdict
    assert seen in check.seen


def test_a_cpu_environment_needs_no_kernels() -> None:
    imports = {"torch": None, "sgl_kernel": "ModuleNotFoundError", "flashinfer": "ModuleNotFoundError"}
    environment = replace(
        GOOD, imports=imports, cuda={"available": False}, packages={"sglang": "0.5.9", "torch": "2.13.0+cpu"}
    )
    (check,) = judge(replace(ADOPTING, target=Target.CPU), environment, make_needs())
    assert check.verdict is Verdict.OK


def test_only_environments_that_serve_or_are_adopted_are_imported() -> None:
    releases = (
        ReleaseFact("r1", (), {}, "/opt/specctl/releases/r1/venv/bin/python"),
        ReleaseFact("r2", (), {}, "/opt/specctl/releases/r2/venv/bin/python"),
        ReleaseFact("r3", (), {}, None),
    )
    facts = make_facts(releases=releases, servers=(ServerFact("a", "r2", True), ServerFact("b", "r3", True)))
    assert folders(ADOPTING, facts) == ["/opt/venv", "/opt/specctl/releases/r2/venv"]


def answering(answer: object) -> ScriptedHost:
    host = ScriptedHost()
    host.on("test", "-x", "/opt/venv/bin/python")
    host.on_script("import_module", answer)
    return host


def test_the_environments_own_python_is_the_one_that_imports() -> None:
    raw = {"packages": PACKAGES, "imports": {"torch": None}, "cuda": None, "seconds": 1.5, "python": "p"}
    host = answering(raw)
    assert inspect(host, "/opt/venv") == Environment("/opt/venv", PACKAGES, {"torch": None}, None, 1.5)
    assert host.calls[-1].argv == ("/opt/venv/bin/python",)


def test_an_environment_without_python_is_not_asked() -> None:
    host = ScriptedHost()
    host.on("test", "...", exit_code=1)
    assert inspect(host, "/opt/venv").broken == "there is no /opt/venv/bin/python"


def test_an_interpreter_that_crashes_or_hangs_is_a_finding_and_a_lost_link_is_not() -> None:
    host = answering(None)
    host.break_at("script", CommandFailed("python died", context={"output": "x\nIllegal instruction"}))
    assert inspect(host, "/opt/venv").broken == "Illegal instruction"
    host.break_at("script", HostTimeout("did not end within 300 s"))
    assert inspect(host, "/opt/venv").broken == "did not end within 300 s"
    host.break_at("script", Unreachable("gone"))
    with pytest.raises(Unreachable):
        inspect(host, "/opt/venv")


OLD_PYTHON = (PythonFact("python3", "/usr/bin/python3", "3.8.10", True, True),)
LOCKED, ADOPTED = EnvironmentKind.LOCKED, EnvironmentKind.ADOPTED


@pytest.mark.parametrize(
    ("config", "facts", "environment", "kind", "verdict", "reason"),
    [
        (make_host(), {}, None, LOCKED, Verdict.OK, "locked would do"),
        (ADOPTING, {}, GOOD, ADOPTED, Verdict.OK, "adopted would do"),
        (
            make_host(adopt="/opt/venv"),
            {"pythons": OLD_PYTHON},
            GOOD,
            ADOPTED,
            Verdict.WARN,
            "Python 3.8.10 is not",
        ),
        (make_host(adopt="/opt/venv"), {"glibc": "2.17"}, GOOD, ADOPTED, Verdict.WARN, "glibc 2.17 is older"),
        (
            ADOPTING,
            {},
            replace(GOOD, packages={**PACKAGES, "sglang": "0.5.12"}),
            LOCKED,
            Verdict.WARN,
            "it holds SGLang 0.5.12, the base is 0.5.9",
        ),
        (
            ADOPTING,
            {},
            replace(GOOD, imports={"torch": UNDEFINED}),
            LOCKED,
            Verdict.WARN,
            "torch do not import",
        ),
        (
            ADOPTING,
            {},
            replace(GOOD, packages={**PACKAGES, "sglang": "0.5.9+specctl.2"}),
            ADOPTED,
            Verdict.OK,
            "holds SGLang 0.5.9",
        ),
        (ADOPTING, {}, replace(GOOD, broken="no python"), LOCKED, Verdict.WARN, "no python"),
    ],
)
def test_the_kind_that_fits_is_named_with_its_reason(
    config: HostConfig,
    facts: dict[str, Any],
    environment: Environment | None,
    kind: EnvironmentKind,
    verdict: Verdict,
    reason: str,
) -> None:
    advice = advise(config, make_facts(**facts), make_needs(), [environment] if environment else [])
    assert advice.kind is kind
    check = check_advice(advice)
    assert check.verdict is verdict
    assert reason in check.seen
