"""One host from connection to result: survey, plan, lock, run. What the verbs do on each host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from specctl.build.distribution import Distribution
from specctl.config.model import HostConfig, SecretRef, ServerConfig
from specctl.config.secrets import Secret
from specctl.errors import SpecctlError
from specctl.evidence.model import Expectation, Report
from specctl.exits import ExitCode
from specctl.host.errors import HostTimeout, Unreachable
from specctl.host.protocol import Host
from specctl.release.actions.base import Action
from specctl.release.actions.deadman import settle_deadman
from specctl.release.clock import Clock, Operator, SystemClock, new_run_id, stamp
from specctl.release.context import Context
from specctl.release.deploy_plan import Installer
from specctl.release.errors import LockHeld, PlanChanged
from specctl.release.lock import HostLock
from specctl.release.plan import Plan
from specctl.release.remote import Remote
from specctl.release.result import HostResult, Outcome, ServerResult
from specctl.release.runner import Runner
from specctl.release.state import HostState, LockInfo
from specctl.release.survey import Surveyor
from specctl.release.words import silent
from specctl.service.protocol import Service


def no_owner(_config: HostConfig) -> None:
    """Servers run as whoever writes their files."""


@dataclass(frozen=True)
class Ports:
    """The rest of specctl as this package sees it; `specctl.release.wiring` fills it for real hosts."""

    connect: Callable[[HostConfig], Host]
    service: Callable[[Host, HostConfig, ServerConfig], Service]
    expect: Callable[[Host, HostConfig, ServerConfig, Distribution], Expectation]
    prove: Callable[[Host, HostConfig, ServerConfig, Service, Expectation], Report]
    # packages in the lock -> how they are installed, free bytes, what markers ask for
    installer: Callable[[Host, HostConfig, HostState, int], tuple[Installer, int | None, dict[str, str]]]
    secret: Callable[[SecretRef], Secret]
    owner: Callable[[HostConfig], str | None] = no_owner
    clock: Clock = field(default_factory=SystemClock)
    operator: Operator = field(default_factory=Operator.here)


Make = Callable[[Surveyor], Plan]  # from a connected host to what should be done there
OnStep = Callable[[str, Action, str], None]  # host, step, "start" | "ok" | "failed"
OnDetail = Callable[[str, str], None]  # host, what the step at hand is doing


@dataclass
class Engine:
    """Everything that one command does on hosts. Threads may share it."""

    ports: Ports
    cancelled: threading.Event = field(default_factory=threading.Event)
    on_step: OnStep = silent
    on_detail: OnDetail = silent
    on_broken_lock: Callable[[str, LockInfo], None] = silent

    @contextmanager
    def surveyor(self, config: HostConfig) -> Iterator[Surveyor]:
        """A connection, with the services of every server of the host."""
        host = self.ports.connect(config)
        try:
            services = {s.name: self.ports.service(host, config, s) for s in config.servers}
            yield Surveyor(host, config, services, self.ports.secret, self.ports.owner(config))
        finally:
            with suppress(Exception):
                host.close()

    def plan(self, config: HostConfig, make: Make) -> Plan:
        """The plan for one host; nothing is changed, and no lock is taken."""
        with self.surveyor(config) as surveyor:
            return make(surveyor)

    def run(
        self, config: HostConfig, make: Make, *, command: str, what: str, seen: str | None = None
    ) -> HostResult:
        """Plan and carry it out under the host's lock. Never raises for what happens on the host.

        Args:
            what: for the lock: what the run is for, e.g. "deploy 0.5.9+specctl.2".
            seen: digest of the plan that the operator agreed to; another one is not carried out.
        """
        begin = self.ports.clock.monotonic()
        try:
            with self.surveyor(config) as surveyor:
                result = self._run(surveyor, make, command, what, seen)
        except SpecctlError as exc:
            result = failed(config.name, exc)
        seconds = self.ports.clock.monotonic() - begin
        return HostResult(**{**result.__dict__, "seconds": seconds})

    def _run(self, surveyor: Surveyor, make: Make, command: str, what: str, seen: str | None) -> HostResult:
        config, host = surveyor.config, surveyor.host
        remote = Remote(host, config.root, new_run_id(self.ports.clock), config.sudo)
        lock = HostLock(remote, self.ports.operator, what, stamp(self.ports.clock))
        broke = lock.acquire()
        try:
            if broke is not None:
                self.on_broken_lock(config.name, broke)
            # a timer that a lost run armed is ours now, or has acted: from here on nobody else changes it
            settle_deadman(remote, None)
            plan = make(surveyor)
            if seen is not None and plan.digest != seen:
                raise PlanChanged(
                    f"{config.name} has changed since its plan was shown",
                    context={"host": config.name, "command": command},
                    hint="run the command again and look at the new plan",
                )
            if not plan.changes:
                return unchanged(plan)
            return Runner(
                plan,
                self._context(surveyor, remote, lock),
                lambda action, event: self.on_step(config.name, action, event),
            ).run()
        finally:
            with suppress(SpecctlError):  # the host is lost: the lock is stale by its own promise
                lock.release()

    def _context(self, surveyor: Surveyor, remote: Remote, lock: HostLock) -> Context:
        config = surveyor.config
        servers = {s.name: s for s in config.servers}

        def prove(name: str, expectation: Expectation) -> Report:
            service = surveyor.services[name]
            return self.ports.prove(surveyor.host, config, servers[name], service, expectation)

        return Context(
            host=surveyor.host,
            config=config,
            remote=remote,
            clock=self.ports.clock,
            operator=self.ports.operator,
            services=surveyor.services.__getitem__,
            prove=prove,
            secret=self.ports.secret,
            lock=lock,
            cancelled=self.cancelled,
            progress=lambda text: self.on_detail(config.name, text),
        )


def unchanged(plan: Plan) -> HostResult:
    servers = tuple(ServerResult(s.server, s.after, changed=False) for s in plan.servers)
    return HostResult(plan.host, Outcome.UNCHANGED, servers=servers, notes=plan.notes)


def failed(host: str, error: SpecctlError) -> HostResult:
    """The result of a host on which nothing was begun."""
    outcome = Outcome.FAILED
    if isinstance(error, (Unreachable, HostTimeout)):
        outcome = Outcome.UNREACHABLE
    elif isinstance(error, LockHeld):
        outcome = Outcome.LOCKED
    elif error.exit_code is ExitCode.USAGE:
        outcome = Outcome.REFUSED
    error.context = {"host": host, **error.context}
    return HostResult(host, outcome, error=error, state="nothing was begun on this host")
