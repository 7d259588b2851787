"""New thresholds brought to one server: live where it takes them, by a restart where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace

from specctl.config.model import HostConfig, ServerConfig
from specctl.errors import SpecctlError
from specctl.host.protocol import Host
from specctl.release.clock import Clock, Operator, SystemClock
from specctl.release.lock import HostLock
from specctl.service.protocol import Service
from specctl.tune.errors import NoSwitch, ThresholdRefused, TuneError
from specctl.tune.kept import keep, kept, note_change, with_values
from specctl.tune.live import change, look, need_switch
from specctl.tune.locked import locked
from specctl.tune.reboot import Reboot
from specctl.tune.values import Values, check

LEASE_S = 180.0


@dataclass(frozen=True)
class Changed:
    """A change that was made. `kept` is False when a restart would undo it; `why` says why."""

    host: str
    server: str
    before: Values | None  # None: it had no threshold
    now: Values
    kept: bool
    why: str = ""
    live: bool = True  # False: by a restart

    @property
    def words(self) -> str:
        """How it was made and whether it lasts."""
        if not self.live:
            return "by a restart, and so for the next start"
        return "live on all ranks" + (
            " and for the next start" if self.kept else f"; a restart undoes it: {self.why}"
        )


def can_restart(error: TuneError) -> bool:
    """Whether a start with the new values may help where the running server does not take them."""
    return isinstance(error, (NoSwitch, ThresholdRefused))


@dataclass
class Rollout:
    """Changes of one server's thresholds, each under the host's lock and noted in its journal."""

    host: Host
    config: HostConfig
    server: ServerConfig
    service: Service
    progress: Callable[[str], None] = lambda _: None
    operator: Operator = field(default_factory=Operator.here)
    clock: Clock = field(default_factory=SystemClock)

    def live(self, wanted: Values) -> Changed:
        """Change it while it serves, and write it into the unit for the next start.

        Raises:
            UsageError: a value is out of its range.
            NotAnswering, NoSwitch: there is nothing that could be changed.
            ThresholdRefused: the server refuses; nothing was changed.
            LockHeld: another run is at work on the host.
        """
        check(wanted, None)
        seen = look(self.host, self.config, self.server)
        before = need_switch(seen, self.config.name, self.server.name)
        check(wanted, seen.limit)
        with self._locked(wanted) as lock:
            found = kept(self.host, self.config, self.server, self.service)
            with self._noted(lock, before, wanted):
                now = self._now(change(self.host, self.config, self.server, wanted).values)
            is_kept = keep(self.service, found, now)
            self._note(lock, before, now, "ok" if is_kept else "ok, live only")
        return Changed(self.config.name, self.server.name, before, now, is_kept, found.why)

    def restart(self, wanted: Values) -> Changed:
        """Start it anew with the values; when that fails, the old unit serves again.

        Raises:
            UsageError: a value is out of its range.
            ThresholdRefused: it does not show the values even then.
            TuneError: its unit is none that specctl wrote.
            NotReady: it does not become healthy with them.
            LockHeld: another run is at work on the host.
        """
        check(wanted, None)
        seen = look(self.host, self.config, self.server)
        before = seen.values
        check(wanted, seen.limit if before else None)
        if wanted.resume_steps is None and before is not None:
            wanted = replace(wanted, resume_steps=before.resume_steps)  # as a live change leaves it
        with self._locked(wanted) as lock, self._noted(lock, before, wanted):
            found = kept(self.host, self.config, self.server, self.service)
            if found.unit is None:
                raise TuneError(
                    f"{self.server.name} on {self.config.name} cannot be started with {wanted}: {found.why}",
                    code="no-unit",
                    context={"host": self.config.name, "server": self.server.name},
                    hint="write it into the inventory (--save), and deploy",
                )
            reboot = Reboot(self.host, self.config, self.server, self.service, lock, self.progress)
            reboot.replaced(found.unit, with_values(found.unit, wanted), lambda: self._prove(wanted))
            now = self._now(look(self.host, self.config, self.server).values)
            self._note(lock, before, now, "ok, restarted")
        return Changed(self.config.name, self.server.name, before, now, kept=True, live=False)

    def _prove(self, wanted: Values) -> None:
        """Raises ThresholdRefused when not every rank shows the values."""
        seen = look(self.host, self.config, self.server)
        if seen.values is None or not wanted.agrees(seen.values) or not seen.same_everywhere:
            raise ThresholdRefused(
                f"{self.server.name} on {self.config.name} was restarted with {wanted}, but does not show it",
                code="threshold-not-seen",
                context={"host": self.config.name, "it has": str(seen.values or seen.error or "no switch")},
                hint="its old unit serves again; see whether its release has the overlay: specctl verify",
            )

    def _now(self, values: Values | None) -> Values:
        if values is None:
            raise NoSwitch(f"{self.server.name} on {self.config.name} shows no threshold any more")
        return values

    def _locked(self, wanted: Values) -> AbstractContextManager[HostLock]:
        what = f"threshold {self.server.name} {wanted}"
        return locked(
            self.host, self.config, what, LEASE_S, operator=self.operator, clock=self.clock, say=self.progress
        )

    @contextmanager
    def _noted(self, lock: HostLock, before: Values | None, wanted: Values) -> Iterator[None]:
        """A change that fails is in the journal too."""
        try:
            yield
        except SpecctlError as exc:
            with suppress(SpecctlError):  # what failed is what matters, also where the link is lost
                self._note(lock, before, wanted, exc.code)
            raise

    def _note(self, lock: HostLock, before: Values | None, now: Values, result: str) -> None:
        note_change(lock.remote, self.clock, self.operator, self.server.name, before, now, result)
