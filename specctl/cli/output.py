"""How commands talk: results on stdout (a table for people, `--json` for programs), the rest on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from specctl.errors import SpecctlError

READABLE = 16  # characters a line of a cell, below which words and ids are torn apart


@dataclass(frozen=True)
class Output:
    """The two streams of one command.

    `out` carries results only, so that a pipe reads nothing else; `err` carries progress, warnings and
    errors. `as_json` replaces tables by one JSON document.
    """

    out: Console
    err: Console
    as_json: bool = False

    @classmethod
    def create(cls, *, as_json: bool = False, color: bool | None = None) -> Output:
        """Consoles for this process.

        `color=False`, NO_COLOR or a pipe turn colour off, bold with it; `color=True` overrules them.
        """
        off = color is False or (color is None and bool(os.environ.get("NO_COLOR")))
        system = None if off else "standard" if color else "auto"
        # A pipe has no width: a table that was cut to 80 columns would lose what a program looks for.
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 1000
        styled: dict[str, Any] = {"color_system": system, "no_color": off, "highlight": False}
        out = Console(soft_wrap=not sys.stdout.isatty(), width=width, **styled)
        err = Console(stderr=True, soft_wrap=not sys.stderr.isatty(), **styled)
        return cls(out=out, err=err, as_json=as_json)

    def json(self, document: object) -> None:
        """Print one JSON document, and nothing around it, on stdout."""
        sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")
        sys.stdout.flush()

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None
    ) -> None:
        """Print a table on stdout; cells are plain text (markup in them is not interpreted).

        On a terminal that is too narrow for it, each row is a few lines of its own.
        """
        rows = [tuple(row) for row in rows]
        if all(columns) and _width(columns, rows) > self.out.width:
            self._records(columns, rows, title)
            return
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")  # wrapped, never cut with an ellipsis
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        self.out.print(table)

    def _records(self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None) -> None:
        indent = max(map(len, columns))
        if title:
            self.line(title)
        for number, row in enumerate(rows):
            if number:
                self.line("")
            for column, cell in zip(columns, row, strict=True):
                self.line(f"{column:{indent}}  {cell}")

    def line(self, text: str) -> None:
        """Print one line of the result on stdout."""
        self.out.print(escape(text))

    def note(self, text: str) -> None:
        """Say something that is not the result, on stderr."""
        self.err.print(escape(text))

    def error(self, error: SpecctlError) -> None:
        """Render an error: JSON on stdout when asked for, else the four parts on stderr."""
        if self.as_json:
            self.json({"error": error.as_dict()})
            return
        self.err.print(f"[bold red]error[/] \\[{escape(error.code)}]: {escape(error.message)}")
        for label, text in error.context.items():
            first, *rest = str(text).splitlines() or [""]
            self.err.print(f"  {escape(label)}: {escape(first)}")
            for more in rest:
                self.err.print(f"    {escape(more)}")
        if error.hint:
            self.err.print(f"  [bold]hint[/]: {escape(error.hint)}")


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """What a table needs at least, with two blanks between columns."""
    cells = zip(columns, *rows, strict=True)
    return sum(min(READABLE, max(map(len, column))) + 2 for column in cells) - 2
