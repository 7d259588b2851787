"""specctl with a tripwire: `python -m lab.anywhere.operator VERB ...` is the real command line.

Only two things differ: at one place of the run (`Trip`) this process dies or tells the test and waits for it,
and its promises to the host are shorter by `haste`, so that a host that waits for a lost operator waits less.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from specctl.release import context, lock, stepping, wayback, wiring
from specctl.release.actions.base import Action
from specctl.release.actions.deadman import ArmDeadman
from specctl.release.runner import Runner

from .trip import AFTER, BEFORE, DURING, UNDO, VARIABLE, Trip

VERBS = ("run", "stream", "put", "write", "read", "script")
SHORTEST_S, LONGEST_S = 8.0, 25.0  # of a hastened promise


class Wire:
    """Counts actions and the host's calls inside them, and goes off once."""

    def __init__(self, trip: Trip) -> None:
        self.trip = trip
        self.met: Counter[tuple[str, str]] = Counter()  # (kind, phase) -> how often it was begun
        self.inside: tuple[str, str] | None = None
        self.calls: Counter[tuple[str, str]] = Counter()
        self.off = trip.kind == ""

    def here(self, kind: str, phase: str) -> bool:
        trip = self.trip
        return not self.off and (kind, phase) == (trip.kind, trip.phase) and self.met[kind, phase] == trip.nth

    def at(self, kind: str, phase: str) -> None:
        """A place between actions."""
        self.met[kind, phase] += 1
        if self.here(kind, phase):
            self.strike()

    @contextlib.contextmanager
    def within(self, kind: str, phase: str) -> Iterator[None]:
        """The calls of one action; goes off at its end when it made fewer calls than the trip counts."""
        self.met[kind, phase] += 1
        self.inside = (kind, phase)
        self.calls[kind, phase] = 0
        try:
            yield
        finally:
            if self.here(kind, phase):
                self.strike()
            self.inside = None

    def call(self, act: Callable[[], Any]) -> Any:
        """One call to the host."""
        if self.inside is None:
            return act()
        self.calls[self.inside] += 1
        if not self.here(*self.inside) or self.calls[self.inside] != self.trip.call:
            return act()
        if self.trip.moment == "flight":
            threading.Thread(target=self.strike, args=(self.trip.delay_s, False), daemon=True).start()
            return act()
        if self.trip.moment == "before":
            self.strike()
            return act()
        answer = act()
        self.strike()
        return answer

    def strike(self, delay_s: float = 0.0, wait: bool = True) -> None:
        if self.off:
            return
        self.off = True
        time.sleep(delay_s)
        os.write(self.trip.said, b"at\n")
        if self.trip.die:
            os.kill(os.getpid(), signal.Signals[self.trip.die])
        elif wait:
            os.read(self.trip.heard, 16)

    def report(self) -> None:
        """How many calls each action made, for those who choose where to strike."""
        counts = [[kind, phase, calls] for (kind, phase), calls in self.calls.items()]
        if self.trip.said >= 0:
            os.write(self.trip.said, ("calls " + json.dumps(counts) + "\n").encode())


class WiredHost:
    """A host whose calls are counted."""

    def __init__(self, host: Any, wire: Wire) -> None:
        self._host, self._wire = host, wire

    def __getattr__(self, verb: str) -> Any:
        inner = getattr(self._host, verb)
        if verb not in VERBS:
            return inner
        return lambda *args, **kwargs: self._wire.call(lambda: inner(*args, **kwargs))


def lay(wire: Wire) -> None:
    """Put the tripwire under every action: its apply and verify, its undo, and the places between."""
    connect, step, perform = wiring.connect, Runner._step, Runner._perform
    undo = wayback.WayBack._undo_one
    wiring.connect = lambda config: WiredHost(connect(config), wire)  # type: ignore[assignment]

    def stepping_on(self: Runner, action: Action, begun: list[Action]) -> None:
        wire.at(action.kind, BEFORE)
        step(self, action, begun)

    def performing(self: Runner, action: Action) -> None:
        with wire.within(action.kind, DURING):
            perform(self, action)
        wire.at(action.kind, AFTER)

    def undoing(self: wayback.WayBack, action: Action) -> None:
        with wire.within(action.kind, UNDO):
            undo(self, action)

    Runner._step, Runner._perform = stepping_on, performing  # type: ignore[method-assign]
    wayback.WayBack._undo_one = undoing  # type: ignore[method-assign]


def hurry(haste: float) -> None:
    """Shorter promises, and shorter pauses between tries."""
    if haste >= 1.0:
        return
    lease = lock.HostLock.lease

    def shorter(seconds: float) -> float:
        return min(max(seconds * haste, SHORTEST_S), LONGEST_S)

    def hastened(self: lock.HostLock, step: str, seconds: float) -> dict[str, object]:
        return lease(self, step, shorter(seconds))

    lock.HostLock.lease = hastened  # type: ignore[method-assign]
    lock.HostLock.acquire.__defaults__ = ("start", shorter(lock.MARGIN_S))
    context.BEAT_S *= haste
    stepping.RETRIES_S = tuple(pause * haste * 2 for pause in stepping.RETRIES_S)
    grace = next(f for f in dataclasses.fields(ArmDeadman) if f.name == "grace_s")
    assert isinstance(grace.default, float)
    ArmDeadman.__init__.__defaults__ = (grace.default * haste,)


def main() -> None:
    trip = Trip.from_env(os.environ.pop(VARIABLE))
    wire = Wire(trip)
    hurry(trip.haste)
    lay(wire)
    from specctl.cli.main import main as command_line

    try:
        command_line(sys.argv[1:])
    finally:
        wire.report()


if __name__ == "__main__":
    main()
