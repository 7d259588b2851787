"""The programs that run on hosts: old Pythons must be able to read them."""

from __future__ import annotations

import ast

import pytest

from specctl.host import programs

NAMES = ("facts", "look", "receive")


@pytest.mark.parametrize("name", NAMES)
def test_python_3_6_can_read_a_program(name: str) -> None:
    tree = ast.parse(programs.source(name), feature_version=(3, 6))
    modules = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "specctl" not in modules
    assert "__future__" not in modules  # annotations came with 3.7


def test_the_loader_is_one_line() -> None:
    ast.parse(programs.LOADER, feature_version=(3, 6))
    assert "\n" not in programs.LOADER
