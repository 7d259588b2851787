"""CPython 3.11 cannot parse in two threads at once: what goes to many hosts is parsed by one at a time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import specctl

PACKAGES = ("host", "service", "evidence", "release", "tune", "doctor")  # what runs in a thread for each host
FILES = sorted(
    path
    for name in PACKAGES
    for path in (Path(specctl.__file__).parent / name).rglob("*.py")
    if path.name != "joining.py"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_deploy_to_many_hosts_does_not_fail_by_chance(path: Path) -> None:
    calls = [
        node.func
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    parses = [f for f in calls if f.attr == "parse" and isinstance(f.value, ast.Name) and f.value.id == "ast"]
    assert not parses, "use specctl.host.joining.statements"
