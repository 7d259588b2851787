"""What an action may use while it runs on one host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from specctl.config.model import HostConfig, SecretRef
from specctl.config.secrets import Secret
from specctl.evidence.model import Expectation, Report
from specctl.host.protocol import Host
from specctl.release.clock import Clock, Operator
from specctl.release.errors import Interrupted
from specctl.release.journal import Journal
from specctl.release.layout import Layout
from specctl.release.lock import HostLock
from specctl.release.remote import Remote
from specctl.release.words import silent
from specctl.service.protocol import Service, ServiceState

BEAT_S = 10.0  # how often a waiting step renews its promise
PATIENCE_S = 45.0  # how long a waiting step may be silent before the host thinks the operator lost


@dataclass
class Context:
    """One run on one host.

    `services` and `prove` are handed in, so that this package needs to know no supervisor and no evidence.
    """

    host: Host
    config: HostConfig
    remote: Remote
    clock: Clock
    operator: Operator
    services: Callable[[str], Service]  # server name -> its service
    prove: Callable[[str, Expectation], Report]  # server name, what to see -> all evidence of this moment
    secret: Callable[
        [SecretRef], Secret
    ]  # reads one secret's value; only called by the action that writes it
    source: Path | None = None  # the distribution's folder; None for a rollback, which pushes nothing
    lock: HostLock | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    progress: Callable[[str], None] = silent  # detail of the step at hand
    reports: dict[str, Report] = field(default_factory=dict)  # server -> evidence that its gate collected
    unstoppable: bool = False  # on the way back, and once all is written down, Ctrl-C stops nothing
    _beat_at: float = 0.0
    _step: str = ""
    _lease_s: float = PATIENCE_S

    @property
    def layout(self) -> Layout:
        return Layout(self.config.root)

    def enter(self, step: str, lease_s: float, journal: Journal | None = None, *about: str | None) -> None:
        """Before a step: renew the promise for as long as the step may be silent, and note the step.

        `about`: kind and server for the journal; both go to the host in one trip.
        """
        self._step, self._lease_s = step, lease_s
        lock = self.lock if self.lock is not None and self.lock.held else None
        if journal is not None:
            answer = journal.start(about[0] or step, about[1], lock.lease(step, lease_s) if lock else None)
            if lock:
                lock.judge(answer, step)
        elif lock:
            lock.renew(step, lease_s)
        self._beat_at = self.clock.monotonic()

    def again(self) -> None:
        """Before a step that lost its link is repeated: the host may have acted, or somebody else.

        Raises:
            UndoneByHost, LockLost: so nothing may be done any more.
        """
        if self.lock is not None and self.lock.held:
            self.lock.renew(self._step, self._lease_s)

    def wait(self, seconds: float) -> None:
        """Sleep inside a step that polls; renews the promise, and gives up when the operator asks to stop.

        Raises:
            Interrupted: Ctrl-C.
        """
        self.check()
        self.clock.sleep(seconds)
        if self.clock.monotonic() - self._beat_at > BEAT_S:
            self.enter(self._step, PATIENCE_S)
        self.check()

    def check(self) -> None:
        """Raises Interrupted when the operator has asked to stop, and that is still possible."""
        if self.cancelled.is_set() and not self.unstoppable:
            raise Interrupted(
                f"interrupted on {self.host.name}", context={"host": self.host.name, "step": self._step}
            )


def state_text(states: Mapping[str, ServiceState]) -> str:
    """Services in a few words, for a sentence about what is left: `main: failed (exit-code)`."""
    return ", ".join(
        f"{name}: {s.active}" + (f" ({s.result})" if s.result and s.active != "active" else "")
        for name, s in states.items()
    )
