"""What the person sees: headings, commands as typed, their output as it comes, and one table at the end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from .promises import Promise

INDENT = "    "
LOGGED = re.compile(r"^ *(log: )?\[\d{4}-\d\d-\d\d ")  # a line of the server's log inside an error
MOST_LOGGED = 6


def folded(line: str, width: int) -> list[str]:
    """A line for the screen: long ones are wrapped, those of a server's log inside an error are cut."""
    if len(line) <= width:
        return [line]
    if LOGGED.match(line):
        return [line[: width - 4] + " ..."]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


class Terminated(KeyboardInterrupt):
    """SIGTERM came: unlike Ctrl-C on a terminal, it came to this process only."""


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    text: str


@dataclass
class Screen:
    """Writes to one stream; `folder` and `env` are those of the commands."""

    folder: Path
    env: Mapping[str, str]
    out: TextIO = field(default_factory=lambda: sys.stdout)
    begin: float = field(default_factory=time.monotonic)

    @property
    def colour(self) -> bool:
        return self.out.isatty() and not os.environ.get("NO_COLOR")

    @property
    def width(self) -> int:
        """Columns; a pipe has none, and there 110 are read well."""
        return shutil.get_terminal_size((110, 24)).columns if self.out.isatty() else 110

    def _paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colour else text

    def _line(self, text: str = "") -> None:
        self.out.write(text + "\n")
        self.out.flush()

    def heading(self, title: str) -> None:
        at = time.monotonic() - self.begin
        self._line()
        self._line(self._paint(f"{title}  [{at:.0f} s]", "1"))

    def say(self, text: str) -> None:
        for line in textwrap.wrap(text, self.width, break_long_words=False, break_on_hyphens=False):
            self._line(line)

    def block(self, text: str) -> None:
        """Text as it is, indented."""
        for line in text.splitlines():
            for part in textwrap.wrap(line, self.width - 8, subsequent_indent="    ", break_on_hyphens=False):
                self._line(INDENT + part)

    def typed(self, words: Sequence[str]) -> None:
        whole = f"$ {shlex.join(words)}"
        parts = textwrap.wrap(whole, self.width - 2, subsequent_indent="      ", break_on_hyphens=False)
        self._line(self._paint(" \\\n".join(parts), "36"))

    def specctl(self, *words: str, keep: int | None = None, hush: bool = False) -> Done:
        """Run `specctl WORDS` as a process of its own and show it.

        Args:
            keep: show the first lines only, and say how many were left out.
            hush: show the command but not its output.
        """
        self.typed(["specctl", *words])
        process = subprocess.Popen(
            [sys.executable, "-m", "specctl", *words],
            cwd=self.folder,
            env={**self.env, "COLUMNS": str(self.width - len(INDENT))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        lines: list[str] = []
        logged = 0
        try:
            for line in process.stdout:
                lines.append(line.rstrip())
                logged = logged + 1 if LOGGED.match(lines[-1]) else 0
                if hush or (keep is not None and len(lines) > keep) or logged > MOST_LOGGED:
                    continue
                for part in folded(lines[-1], self.width - len(INDENT)):
                    self._line((INDENT + part).rstrip())
            code = process.wait()
        except Terminated:
            process.send_signal(signal.SIGINT)
            raise
        finally:
            process.wait()  # an interrupted specctl undoes what is at hand
        if keep is not None and len(lines) > keep and not hush:
            self._line(f"{INDENT}... {len(lines) - keep} more lines")
        return Done(code, "\n".join(lines))

    def promises(self, promises: Sequence[Promise]) -> None:
        """The closing table, folded to the screen."""
        names = max(len(p.promised) for p in promises)
        names = min(names, 40)
        seen_width = max(30, self.width - names - 8)
        for p in promises:
            left = textwrap.wrap(p.promised, names)
            right = textwrap.wrap(p.seen, seen_width, break_long_words=False, break_on_hyphens=False)
            right += textwrap.wrap(f"seen in: {p.where}", seen_width, break_on_hyphens=False)
            for i in range(max(len(left), len(right))):
                mark = ("yes" if p.kept else "NO") if i == 0 else ""
                a, b = (x[i] if i < len(x) else "" for x in (left, right))
                colour = "32" if p.kept else "31"
                self._line(f"{self._paint(f'{mark:4}', colour)}{a:{names}}  {b}".rstrip())
