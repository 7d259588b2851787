"""Reads tests/cases/inventory, and gives the text of one inventory to the loader."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from specctl.config.inventory import InventoryFile, parse_inventory
from specctl.config.model import Inventory
from specctl.config.problems import Problem

CASES = Path(__file__).parents[1] / "cases" / "inventory"
SERVER = "{name: main, model: /m, port: 30000}"


def cases(*names: str) -> list[tuple[str, dict[str, Any]]]:
    """(id, case) of every case in these files of tests/cases/inventory."""
    return [
        (f"{Path(name).stem}: {case['name']}", case)
        for name in names
        for case in yaml.safe_load((CASES / name).read_text(encoding="utf-8"))
    ]


def parse(
    text: str | bytes,
    *,
    file: str = "x.yaml",
    home: str | None = "/home/op",
    bases: Collection[str] | None = None,
) -> Inventory:
    """An inventory of one file; `<server>` in its text is a whole server called main."""
    data = text.replace("<server>", SERVER).encode() if isinstance(text, str) else text
    environ = {"HOME": home} if home else {}
    return parse_inventory(Path(file), [InventoryFile(file, data)], environ=environ, bases=bases)


def told(problem: Problem) -> str:
    """A problem as the cases write it."""
    where = problem.where
    path = f" {where.path}" if where.path else ""
    return f"{where.line}:{where.column}{path} [{problem.code}] {problem.text}\n  -> {problem.hint}"
