"""Progress on stderr: one moving row for each host on a terminal, one line for each step in a pipe."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from specctl.cli.output import Output
from specctl.release.actions.base import Action
from specctl.release.stepping import label


class StepProgress:
    """Told of every step of every host, from any thread."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._bar: Progress | None = None
        self._rows: dict[str, TaskID] = {}
        self._began: dict[str, float] = {}
        self._guard = threading.Lock()

    @contextmanager
    def shown(self, totals: dict[str, int]) -> Iterator[StepProgress]:
        """Show rows for these hosts (name -> number of steps) while the block runs."""
        if not self._output.err.is_terminal or not totals:
            yield self
            return
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[host]}"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._output.err,
            transient=True,
        )
        with self._bar:
            for host, total in totals.items():
                self._rows[host] = self._bar.add_task("waiting", total=total, host=host)
            yield self
        self._bar = None

    def step(self, host: str, action: Action, event: str) -> None:
        """A step began, or ended with "ok" or "failed"."""
        with self._guard:
            if event == "start":
                self._began[host] = time.monotonic()
                if self._bar is not None:
                    self._bar.update(self._rows[host], description=action.describe()[:70])
                return
            seconds = time.monotonic() - self._began.get(host, time.monotonic())
            if self._bar is not None:
                self._bar.advance(self._rows[host])
            if self._bar is None or event == "failed":
                self._output.note(f"{host}: {label(action)} {event} ({seconds:.1f} s): {action.describe()}")

    def detail(self, host: str, text: str) -> None:
        """What a long step is doing; too much for a pipe."""
        if self._bar is not None and host in self._rows:
            self._bar.update(self._rows[host], description=text[:70])
