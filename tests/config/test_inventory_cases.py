"""The inventories of tests/cases/inventory: refused with every problem named, doubtful, or taken as meant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import specctl.config
from config.cases import CASES, cases, parse, told
from specctl.config.problems import InventoryError
from specctl.exits import ExitCode

REFUSED = cases(*(f"refused/{path.name}" for path in sorted((CASES / "refused").glob("*.yaml"))))
TAKEN = cases("taken.yaml")
DOUBTFUL = cases("doubtful.yaml")


def ids(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [name for name, _ in found]


@pytest.mark.parametrize("case", [c for _, c in REFUSED], ids=ids(REFUSED))
def test_a_bad_inventory_is_refused_with_line_path_and_suggestion(case: dict[str, Any]) -> None:
    with pytest.raises(InventoryError) as caught:
        parse(case["file"])
    said = "".join(f"{told(problem)}\n" for problem in caught.value.problems).replace("x.yaml:", "x:")
    assert said == case["says"]
    assert caught.value.exit_code is ExitCode.USAGE
    if "never" in case:
        everything = f"{caught.value.as_dict()} {caught.value} {caught.value!r}"
        assert case["never"] not in everything


@pytest.mark.parametrize("case", [c for _, c in TAKEN], ids=ids(TAKEN))
def test_a_good_inventory_means_what_its_author_wrote(case: dict[str, Any]) -> None:
    inventory = parse(case["file"])
    assert inventory.warnings == (), "a good case has no warnings"
    hosts = {host.name: host for host in inventory.hosts}
    for name, fields in case["means"].items():
        host_name, _, server_name = name.partition("/")
        host = hosts[host_name]
        servers = {server.name: server for server in host.servers}
        for field, expected in fields.items():
            found: object
            if server_name:
                found = getattr(servers[server_name], field)
            else:
                found = host.ssh.address if field == "address" else getattr(host, field)
            if isinstance(expected, list):
                expected = tuple(expected)
            assert found == expected, f"{name}.{field}"


@pytest.mark.parametrize("case", [c for _, c in DOUBTFUL], ids=ids(DOUBTFUL))
def test_a_doubtful_inventory_is_taken_with_a_warning(case: dict[str, Any]) -> None:
    warnings = parse(case["file"], bases=("0.5.9", "0.5.10.post1")).warnings
    said = "".join(f"{warning.removeprefix('x.yaml:')}\n" for warning in warnings)
    assert said == case["says"]


def test_a_check_without_a_case_is_noticed() -> None:
    """Every code that specctl.config can report has a refused or doubtful inventory, or a test of its own."""
    sources = [p.read_text(encoding="utf-8") for p in Path(specctl.config.__file__).parent.rglob("*.py")]
    calls = re.compile(r'(?:\.add|refuse|warn)\(\s*"([a-z0-9-]+)",|\bcode="([a-z0-9-]+)"')
    reported = {code for text in sources for pair in calls.findall(text) for code in pair if code}
    refused = {
        code for _, c in REFUSED for code in re.findall(r"(?m)^\d\S* .*?\[([a-z][a-z0-9-]+)\] ", c["says"])
    }
    files = {"not-utf8", "control-character", "duplicate-group"}  # test_inventory_files.py
    selection = {
        "no-inventory",
        "nothing-selected",
        "bad-pattern",
    }
    warnings = {"open", "draft", "gpus", "base"}  # doubtful.yaml
    assert reported - refused == files | selection | warnings
    assert len(REFUSED) >= 60
