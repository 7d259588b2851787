"""Nobody may slip another package under specctl or its servers: bounds, hashes, and versions known to be bad.

This is what can be checked without a network; `make audit` asks an advisory database.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from specctl.service.supervisor import REQUIREMENT
from tests.audit import main, read

REPO = Path(__file__).parents[1]
LOCKS = sorted((REPO / "specctl/base/locks").glob("*.txt"))
BASES = sorted((REPO / "specctl/base/data").glob("*.yaml"))

# The first version without a fault that somebody else could use.
FIXED = {
    "aiohttp": "3.9.4",  # CVE-2024-30251, CVE-2024-27306
    "paramiko": "3.4.0",  # CVE-2023-48795 (Terrapin)
    "pip": "25.3",  # CVE-2025-8869: links that lead out of an sdist
    "pyyaml": "5.4",  # CVE-2020-14343
    "uv": "0.9.6",  # CVE-2025-62518, CVE-2025-13327: archives read in two ways
    "wheel": "0.46.2",  # CVE-2026-24049: modes set outside of the unpacked wheel
}
# Releases that were published with malice, and taken back.
STOLEN = {
    "ctx": ("0.2.2", "0.2.6"),
    "litellm": ("1.82.7", "1.82.8"),
    "num2words": ("0.5.15", "0.5.16"),
    "torchtriton": ("3.0.0",),
    "ultralytics": ("8.3.41", "8.3.42", "8.3.45", "8.3.46"),
}


def declared() -> list[Requirement]:
    """Every dependency that pyproject.toml and the service code name, but those that a base pins."""
    text = (REPO / "pyproject.toml").read_text()
    section = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    section = re.sub(r"^host = \[.*?^\]$", "", section, flags=re.M | re.S)
    words = [m for line in section.splitlines() for m in re.findall(r'"([^"]+)"', line.partition("#")[0])]
    return [Requirement(word) for word in [*words, REQUIREMENT]]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_every_dependency_has_a_floor_and_a_ceiling(requirement: Requirement) -> None:
    operators = {spec.operator for spec in requirement.specifier}
    assert operators == {">=", "<"} or operators == {"=="}, str(requirement)
    assert requirement.url is None


def test_the_list_of_dependencies_is_not_empty() -> None:
    assert {"paramiko", "pyyaml", "supervisor", "pytest"} <= {r.name.lower() for r in declared()}


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_no_floor_lets_a_version_in_that_is_known_to_be_bad(requirement: Requirement) -> None:
    fixed = FIXED.get(requirement.name.lower())
    if fixed is not None:
        floors = [Version(s.version) for s in requirement.specifier if s.operator in (">=", "==")]
        assert max(floors) >= Version(fixed), f"{requirement} lets versions before {fixed} in"


def pins(lock: Path) -> list[tuple[str, str]]:
    """(requirement, everything that follows it) for each package of a lock."""
    text = re.sub(r"^\s*#.*\n", "", lock.read_text(), flags=re.M)
    return [(m[1], m[2]) for m in re.finditer(r"^(\S[^\n\\]*?) *((?:\\\n.*?)*)$", text, flags=re.M)]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda p: p.name)
def test_every_package_of_a_lock_is_pinned_to_a_version_and_to_hashes(lock: Path) -> None:
    found = pins(lock)
    assert len(found) > 50
    for words, rest in found:
        requirement = Requirement(words)
        assert {s.operator for s in requirement.specifier} == {"=="}, words
        assert requirement.url is None, words
        hashes = re.findall(r"--hash=(\S+)", rest)
        assert hashes, f"{words} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes), words


@pytest.mark.parametrize("lock", LOCKS, ids=lambda p: p.name)
def test_no_lock_names_a_release_that_was_published_with_malice(lock: Path) -> None:
    for words, _ in pins(lock):
        requirement = Requirement(words)
        version = next(iter(requirement.specifier)).version
        assert version not in STOLEN.get(requirement.name.lower(), ()), words


@pytest.mark.parametrize("base", BASES, ids=lambda p: p.stem)
def test_every_base_is_pinned_by_hash(base: Path) -> None:
    text = base.read_text()
    assert yaml.safe_load(text)
    assert re.search(r"sha256: *['\"]?[0-9a-f]{64}\b", text), f"{base.name} names no sha256"


# -- `make audit`


def test_an_audit_that_looked_nothing_up_is_none() -> None:
    skipped = {"name": "click", "skip_reason": "Dependency not found on PyPI and could not be audited"}
    assert not read({"dependencies": [skipped]}).whole
    assert not read({"dependencies": []}).whole
    fine = {"name": "click", "version": "8.1", "vulns": []}
    assert read({"dependencies": [fine, {"name": "specctl", "skip_reason": "editable"}]}).whole
    assert not read({"dependencies": [fine, skipped]}).whole


def test_a_finding_names_the_package_the_fault_and_the_way_out() -> None:
    fault = {"id": "PYSEC-2099-1", "fix_versions": ["9"]}
    found = read({"dependencies": [{"name": "click", "version": "8.1", "vulns": [fault]}]})
    assert found.findings == ("click 8.1: PYSEC-2099-1, fixed in 9",)


def document(**package: object) -> str:
    return f"import json; print(json.dumps({{'dependencies': [{package!r}]}}))"


@pytest.mark.parametrize(
    ("says", "code", "text"),
    [
        ("raise SystemExit('no route to host')", 3, "nothing was audited"),
        (document(name="a", skip_reason="not found"), 3, "nothing was audited"),
        (document(name="a", version="1", vulns=[]), 0, "0 findings"),
        (document(name="a", version="1", vulns=[{"id": "X-1"}]), 1, "a 1: X-1, fixed in none yet"),
    ],
)
def test_the_audit_says_in_its_exit_code_whether_it_was_one(
    says: str, code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = tmp_path / "pip-audit"
    tool.write_text(f"#!/usr/bin/env python3\n{says}\n")
    tool.chmod(0o755)
    assert main(str(tool)) == code
    assert text in capsys.readouterr().out
    assert main(str(tool), where_possible=True) == (0 if code == 3 else code)
    assert text in capsys.readouterr().out


def test_without_pip_audit_nothing_is_claimed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(tmp_path / "absent")) == 3
    assert "nothing was audited" in capsys.readouterr().out
