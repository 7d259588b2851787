"""SECURITY.md promises nothing that no test holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPO = Path(__file__).parents[1]
TEXT = (REPO / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


def names_in(file: Path) -> set[str]:
    """Every test function of a file, those in classes too."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}


def promises() -> list[str]:
    section = TEXT[TEXT.index("## Promises") : TEXT.index("## Not promised")]
    return [row for row in section.splitlines() if row.startswith("| ")][2:]


def test_every_promise_names_its_test() -> None:
    assert len(promises()) > 10
    for row in promises():
        assert "::" in row, f"no test holds: {row}"


def test_every_test_that_is_named_exists() -> None:
    assert len(NAMED) > 15
    for file, name in NAMED:
        assert name in names_in(REPO / file), f"{file} has no {name}"


def test_the_words_that_sudo_runs_are_all_written_down() -> None:
    """The list in SECURITY.md is the one in the code."""
    from specctl.service import granted

    for argv in (*granted.commands_of("specctl-SERVER.service"), granted.undo_command()):
        verb = " ".join(argv[3 : argv.index("--")])
        assert f"`{verb}`" in TEXT
        assert f"`{argv[-1]}`" in TEXT
    assert "`systemctl --no-pager --no-ask-password`" in TEXT
