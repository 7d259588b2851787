"""Programs for a host must run there as they are sent: one text, nothing but the standard library."""

from __future__ import annotations

import ast
import sys

import pytest

from specctl.evidence.onhost import source as evidence_source
from specctl.service.onhost import source as service_source
from specctl.service.systemd import JOURNAL
from specctl.tune.onhost import source as tune_source

PROGRAMS = {
    "journal": service_source(*JOURNAL),
    "textlog": service_source("textlog"),
    "processes": service_source("processes"),
    "supervisord": service_source("supervisord"),
    "install": evidence_source("install"),
    "alive": evidence_source("web", "alive"),
    "ready": evidence_source("web", "ready"),
    "exercise": evidence_source("web", "generator", "exercise"),
    "ask": tune_source("switch", "ask"),
    "bench": tune_source("switch", "bench"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_imports_only_the_standard_library_and_runs_at_its_end(name: str) -> None:
    tree = ast.parse(PROGRAMS[name], feature_version=(3, 8))
    modules = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules <= set(sys.stdlib_module_names)
    assert isinstance(tree.body[-1], ast.If)
    compile(tree, name, "exec")


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_in_a_program_is_evaluated_that_an_older_python_lacks(name: str) -> None:
    """Annotations are not evaluated; subscripts of built-in types elsewhere would be (before 3.9)."""
    tree = ast.parse(PROGRAMS[name])
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    subscripts = [v for v in values if isinstance(v, ast.Subscript) and isinstance(v.value, ast.Name)]
    builtins = ("dict", "list", "set", "tuple")
    assert [ast.unparse(v) for v in subscripts if ast.unparse(v.value) in builtins] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parts_of_a_program_do_not_take_each_others_names(name: str) -> None:
    names: list[str] = []
    for node in ast.parse(PROGRAMS[name]).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [t.id for t in node.targets if isinstance(t, ast.Name)]
    assert sorted(names) == sorted(set(names))
