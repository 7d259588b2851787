"""A restart with another unit under the host's lock, and the way back to the one that served before.

While another unit is in place, a watcher on the host is armed: it puts the old one back when this machine is
not heard from again, as it does in a deploy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.expectation import launch_args, local_url
from specctl.evidence.ready import await_ready
from specctl.host.protocol import Host
from specctl.release.actions.deadman import Before, arm, settle_deadman
from specctl.release.errors import UndoneByHost
from specctl.release.lock import MARGIN_S, HostLock
from specctl.release.state import HostState
from specctl.release.units import unit_as_dict
from specctl.service.protocol import Service, Unit
from specctl.service.restarting import restart_server
from specctl.tune.errors import TuneError
from specctl.tune.signals import undisturbed


@dataclass(frozen=True)
class Reboot:
    """Restarts of one server. `lock` is held; its run is the one that the host's watcher listens to."""

    host: Host
    config: HostConfig
    server: ServerConfig
    service: Service
    lock: HostLock
    progress: Callable[[str], None]

    @property
    def longest_s(self) -> float:
        """What one restart may take at most, in seconds."""
        return self.server.timers.start_s + self.server.timers.stop_s + 2 * MARGIN_S

    @contextmanager
    def borrowed(self, old: Unit, other: Unit, what: str) -> Iterator[None]:
        """The server runs `other` inside, and `old` again afterwards, whatever happens.

        Args:
            what: the other unit in words, for progress.

        Raises:
            NotReady: one of the two does not become healthy.
            TuneError: the old unit could not be put back.
        """
        self._arm(old)
        try:
            self.progress(f"restarting {what}")
            self._restart(other)
            yield
        finally:
            with undisturbed():
                self.progress("restarting as it was")
                self._back(old)

    def replaced(self, old: Unit, new: Unit, proven: Callable[[], None]) -> None:
        """Restart with `new` for good; with `old` again when that fails.

        Args:
            proven: raises when the server does not show what was wanted.

        Raises:
            NotReady, SpecctlError: what failed; the old unit serves again.
            TuneError: the old unit could not be put back.
        """
        self._arm(old)
        try:
            self.progress("restarting")
            self._restart(new)
            proven()
        except BaseException:
            with undisturbed():
                self.progress("restarting as it was")
                self._back(old)
            raise
        settle_deadman(self.lock.remote, self.lock.remote.run)

    def _arm(self, old: Unit) -> None:
        remote, name = self.lock.remote, self.server.name
        state = HostState.from_json(remote.program("state", units={name: []}))
        current = state.server(name).current
        if current is None:
            raise TuneError(
                f"{name} on {self.config.name} has no release that it could be restarted with",
                code="no-unit",
                hint="deploy first: specctl deploy",
            )
        self.lock.renew("restart", self.longest_s)
        before = Before(name, current, unit_as_dict(old), None)
        arm(self.config, remote, current, [(self.service, before)], stop_s=self.server.timers.stop_s)

    def _restart(self, unit: Unit) -> None:
        self.lock.renew("restart", self.longest_s)
        self.service.install(unit)
        cursor = restart_server(self.host, self.config, self.server, self.service)
        await_ready(
            self.host,
            self.service,
            local_url(self.server, launch_args(self.server)),
            cursor=cursor,
            start_s=self.server.timers.start_s,
            sudo=self.config.sudo,
            progress=self.progress,
        )

    def _back(self, old: Unit) -> None:
        remote = self.lock.remote
        try:
            self._restart(old)
        except UndoneByHost:
            pass  # the watcher did it, or is doing it: settling waits for that
        finally:
            settle_deadman(remote, remote.run)
        if not self.service.installed(old) or not self.service.state().running:
            raise TuneError(
                f"{self.server.name} on {self.config.name} could not be put back as it was",
                code="not-restored",
                context={"host": self.config.name, "server": self.server.name},
                hint=f"deploy again: specctl deploy --hosts {self.config.name}",
            )
