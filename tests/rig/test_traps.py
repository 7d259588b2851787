"""Every known trap has a test, or says why it cannot have one here."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import yaml

from .environment import HERE

TRAPS: list[dict[str, Any]] = yaml.safe_load((HERE / "traps.yaml").read_text(encoding="utf-8"))


def _tests(file: str) -> set[str]:
    """`function` and `Class::function` of a test file."""
    found = set()
    for node in ast.parse((HERE / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap["trap"][:40])
def test_a_trap_is_watched(trap: dict[str, Any]) -> None:
    assert trap.keys() in ({"trap", "tests"}, {"trap", "elsewhere"})
    for name in trap.get("tests", ()):
        file, _, function = name.partition("::")
        assert function in _tests(file), f"{name} is gone; who watches this trap now?"
