"""Progress on stderr: moving rows on a terminal, lines in a pipe; of many hosts only what can be read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from specctl.cli.folding import FEW
from specctl.cli.output import Output
from specctl.release.actions.base import Action
from specctl.release.result import HostResult
from specctl.release.stepping import label
from specctl.release.words import counted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

ROOM = 4  # lines of a terminal that are left to other things


class StepProgress:
    """Told of every step of every host, from any thread.

    A few hosts have a row each on a terminal, and a line for each step in a pipe. Of many hosts a terminal
    shows those at work, as far as they fit, below a row for all of them; a pipe gets one line for each host
    that is done, and the steps that failed.
    """

    def __init__(self, output: Output, clock: Callable[[], float] = time.monotonic) -> None:
        self._output, self._clock = output, clock
        self._bar: Progress | None = None
        self._all: TaskID | None = None
        self._rows: dict[str, TaskID] = {}
        self._totals: dict[str, int] = {}
        self._began: dict[str, float] = {}
        self._over = self._failed = 0
        self._guard = threading.Lock()

    @contextmanager
    def shown(self, totals: dict[str, int]) -> Iterator[StepProgress]:
        """Show rows for these hosts (name -> number of steps) while the block runs."""
        self._totals = totals
        if not self._output.err.is_terminal or not totals:
            yield self
            return
        self._bar = _bar(self._output)
        with self._bar:
            if self._many:
                self._all = self._bar.add_task("", total=len(totals), host="all hosts")
            else:
                for host in totals:
                    self._add(host, "waiting")
            yield self
        self._bar = self._all = None
        self._rows.clear()

    def step(self, host: str, action: Action, event: str) -> None:
        """A step began, or ended with "ok" or "failed"."""
        with self._guard:
            if event == "start":
                self._began[host] = self._clock()
                self._row(host, action.describe())
                return
            seconds = self._clock() - self._began.get(host, self._clock())
            if self._bar is not None and host in self._rows:
                self._bar.advance(self._rows[host])
            if event == "failed" or (self._bar is None and not self._many):
                self._output.note(f"{host}: {label(action)} {event} ({seconds:.1f} s): {action.describe()}")

    def detail(self, host: str, text: str) -> None:
        """What a long step is doing; too much for a pipe."""
        if self._bar is not None and host in self._rows:
            self._bar.update(self._rows[host], description=text[:70])

    def ended(self, result: HostResult) -> None:
        """A host is done with, whatever became of it."""
        with self._guard:
            self._over += result.host in self._totals
            self._failed += result.outcome.failed
            if not self._many:
                return
            if self._bar is not None and self._all is not None:
                failed = f", {self._failed} failed" if self._failed else ""
                self._bar.update(self._all, completed=self._over, description=f"done{failed}")
                row = self._rows.pop(result.host, None)
                if row is not None:
                    self._bar.remove_task(row)
            elif result.host in self._totals:
                failed = f", {self._failed} failed" if self._failed else ""
                of = f"{self._over} of {counted(len(self._totals), 'host')}{failed}"
                self._output.note(f"{result.host}: {result.outcome.value} ({result.seconds:.1f} s); {of}")

    @property
    def _many(self) -> bool:
        return len(self._totals) > FEW

    def _row(self, host: str, text: str) -> None:
        """Write into a host's row; one is made where many hosts are shown and there is room."""
        if self._bar is None:
            return
        if host in self._rows:
            self._bar.update(self._rows[host], description=text[:70])
        elif len(self._rows) + ROOM < self._output.err.height:
            self._add(host, text)

    def _add(self, host: str, text: str) -> None:
        if self._bar is not None:
            total = self._totals.get(host, 1)
            self._rows[host] = self._bar.add_task(text[:70], total=total, host=host)


def _bar(output: Output) -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[host]}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=output.err,
        transient=True,
    )
