"""A fleet of simulated hosts: the real engine, plans, journals and locks, with simulated time.

Each host has a root folder of its own, in which the real on-host programs run; only what would need a machine
is played: packages, supervisor, health and the watcher. Time stands still while any host works and jumps to
the next wake-up when all sleep, so that hours cost nothing and the sums are exact.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import CodeType
from typing import Any

from config.builders import make_host

from specctl.config.model import HostConfig, ServerConfig, SshConfig, Supervisor
from specctl.config.secrets import Secret
from specctl.evidence.model import Evidence, Expectation, Kind, Report, Verdict
from specctl.host.commands import failed
from specctl.host.errors import HostTimeout, Unreachable
from specctl.host.protocol import Result
from specctl.release.clock import Operator
from specctl.release.deploy_plan import Installer
from specctl.release.engine import Ports
from specctl.release.fleet import Fleet
from specctl.release.remote import program_source
from specctl.release.result import HostResult
from specctl.service.protocol import Cursor, LogLine, LogSlice, ServiceState, StopOutcome, Unit, UnitFile

from .sandbox import expect

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


class SimClock:
    """Time that passes only when every busy thread sleeps."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._now = 0.0
        self._wakes: list[tuple[float, int]] = []
        self._order = itertools.count()
        self._left, self._width = 1, 1

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        with self._changed:
            return self._now

    def sleep(self, seconds: float) -> None:
        with self._changed:
            wake = (self._now + max(0.0, seconds), next(self._order))
            heapq.heappush(self._wakes, wake)
            self._jump()
            while wake[0] > self._now or wake in self._wakes:
                self._changed.wait()

    def begin(self, pieces: int, width: int) -> None:
        """From now on so many pieces of work are done, `width` at a time."""
        with self._changed:
            self._left, self._width = pieces, width

    def done(self) -> None:
        """One piece is over."""
        with self._changed:
            self._left -= 1
            self._jump()

    def _jump(self) -> None:
        busy = min(self._left, self._width)
        if not self._wakes or len(self._wakes) < busy:
            return
        self._now = max(self._now, self._wakes[0][0])
        while self._wakes and self._wakes[0][0] <= self._now:
            heapq.heappop(self._wakes)
        self._changed.notify_all()


@dataclass
class Temper:
    """How a host behaves. Seconds are simulated."""

    trip_s: float = 0.02
    start_s: float = 30.0  # from the start of its server to health
    dead: bool = False  # never answers: each connection costs `connect_s`
    connect_s: float = 10.0
    dies_at: int | None = None  # number of the call from which on it is dead
    loses: int | None = None  # every so many calls the answer is lost
    hangs_at: int | None = None  # number of the call that meets its deadline
    broken: bool = False  # its server never proves itself
    babbles: bool = False  # answers programs with JSON of the wrong shape
    output: int = 0  # bytes of log lines and command output that it has for every question


PROGRAMS = ("deadman", "install", "job", "journal", "lock", "ready", "state", "tree")


class SimHost:
    """One host; see the module."""

    def __init__(self, name: str, folder: Path, clock: SimClock, temper: Temper) -> None:
        self.name, self.folder, self.clock, self.temper = name, folder, clock, temper
        self.calls = 0
        self.log: list[str] = []
        self.service_started: float | None = None

    # -- Host

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Result:
        def act() -> Result:
            out = str(Path(argv[-1]).readlink()).encode() if "readlink" in argv else self.noise()
            return Result(tuple(argv), 0, out, b"", 0.0)

        result = self._trip(act)
        if check and not result.ok:
            raise failed(self.name, result)
        return result

    def script(self, source: str, params: Mapping[str, Any], **_: Any) -> Any:
        return self._trip(lambda: self._program(source, params))

    def put(
        self, local: Path, remote: str, *, progress: Callable[[int], None] | None = None, **_: Any
    ) -> bool:
        def act() -> bool:
            Path(remote).parent.mkdir(parents=True, exist_ok=True)
            Path(remote).write_bytes(Path(local).read_bytes())
            return True

        return self._trip(act)

    def write(self, data: bytes, remote: str, **_: Any) -> None:
        self._trip(lambda: Path(remote).write_bytes(data))

    def read(self, remote: str, *, limit: int = 4 << 20, **_: Any) -> bytes | None:
        def act() -> bytes | None:
            path = Path(remote)
            return path.read_bytes()[:limit] if path.is_file() else None

        return self._trip(act)

    def close(self) -> None:
        return

    # -- within

    def noise(self) -> bytes:
        return os.urandom(self.temper.output // 2).hex().encode() if self.temper.output else b""

    def _trip(self, act: Callable[[], Any]) -> Any:
        self.calls += 1
        temper, number = self.temper, self.calls
        if temper.dead or (temper.dies_at is not None and number >= temper.dies_at):
            self.clock.sleep(temper.connect_s)
            raise Unreachable(f"{self.name} cannot be reached", context={"host": self.name})
        if number == temper.hangs_at:
            self.clock.sleep(120.0)
            raise HostTimeout(f"{self.name} did not answer", context={"host": self.name})
        self.clock.sleep(temper.trip_s)
        answer = act()
        if temper.loses and number % temper.loses == 0:
            raise Unreachable(f"the link to {self.name} was lost", context={"host": self.name})
        return answer

    def _program(self, source: str, params: Mapping[str, Any]) -> Any:
        name = _NAMES.get(source, "")
        if self.temper.babbles:
            return {"exists": "maybe", "releases": 7, "held": [self.noise().decode()]}
        if name == "job":
            return {
                "state": "ended",
                "rc": 0,
                "tail": [self.noise().decode()[:200]],
                "run": params.get("run"),
            }
        if name == "install":
            return {"problems": [], "broken": "", "missing": [], "checked": 0, "origin": "there"}
        if name == "ready":
            up = self.service_started is not None
            up = up and self.clock.monotonic() - (self.service_started or 0.0) >= self.temper.start_s
            return {"status": 200 if up else 0, "why": "" if up else "refused"}
        if name == "deadman":
            return {"fired": False, "state": "none", "armed": True}
        return run_program(source, params)


_NAMES = {program_source(name): name for name in PROGRAMS}
_CODE: dict[str, CodeType] = {}


def run_program(source: str, params: Mapping[str, Any]) -> Any:
    """Run an on-host program here; what it printed last, as `Host.script` returns it."""
    if source not in _CODE:
        _CODE[source] = compile(source, "<specctl>", "exec")
    said: list[str] = []
    space = {"__name__": "__main__", "params": json.loads(json.dumps(dict(params)))}
    space["print"] = lambda text="", **_: said.append(str(text))
    exec(_CODE[source], space)
    return json.loads(said[-1])


class SimService:
    """A `Service` that starts and stops in no time, with a log as long as the host's temper says."""

    kind = Supervisor.SYSTEMD

    def __init__(self, host: SimHost, name: str) -> None:
        self.host, self.name = host, f"specctl-{name}"
        self.path = host.folder / f"{name}.service"

    def files(self, unit: Unit) -> tuple[UnitFile, ...]:
        return (UnitFile(str(self.path), json.dumps([unit.argv, dict(unit.env)]).encode()),)

    def installed(self, unit: Unit) -> bool:
        return self.path.is_file()

    def prepare(self) -> None:
        return

    def install(self, unit: Unit) -> bool:
        for file in self.files(unit):
            self.host.write(file.data, file.path)
        return True

    def uninstall(self) -> None:
        self.stop(1.0)
        self.path.unlink(missing_ok=True)

    def start(self) -> None:
        self.host.run(["systemctl", "start"])
        self.host.service_started = self.host.clock.monotonic()

    def stop(self, timeout_s: float) -> StopOutcome:
        self.host.run(["systemctl", "stop"])
        self.host.service_started = None
        return StopOutcome(True, False, 0.0)

    def restart(self, timeout_s: float, *, port: int | None = None) -> Cursor:
        self.stop(timeout_s)
        self.start()
        return Cursor("file:0")

    def state(self) -> ServiceState:
        self.host.run(["systemctl", "show"])
        began = self.host.service_started
        active = "inactive" if began is None else "active"
        return ServiceState(
            self.name, self.path.exists(), active, active, 0 if began is None else 7, str(began), 0
        )

    def cursor(self) -> Cursor:
        return Cursor("file:0")

    def lines_since(self, cursor: Cursor, *, tail: int = 40, **_: Any) -> LogSlice:
        noise = self.host.noise().decode()
        lines = tuple(LogLine(noise[n * 8192 : (n + 1) * 8192]) for n in range(tail))
        return LogSlice(lines, "the log", tail=lines)


@dataclass
class SimFleet:
    """Hosts by name, with the ports that lead to them."""

    folder: Path
    server: ServerConfig
    tempers: Mapping[str, Temper]
    clock: SimClock = field(default_factory=SimClock)
    hosts: dict[str, SimHost] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, temper in self.tempers.items():
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            self.hosts[name] = SimHost(name, self.folder / name, self.clock, temper)

    def configs(self) -> list[HostConfig]:
        return [
            make_host(name, self.server, root=str(self.folder / name / "root"), ssh=SshConfig(address=name))
            for name in self.hosts
        ]

    def ports(self) -> Ports:
        return Ports(
            connect=lambda config: self.hosts[config.name],  # type: ignore[arg-type, return-value]
            service=lambda host, config, server: SimService(self.hosts[config.name], server.name),
            expect=expect,
            prove=self._prove,
            installer=lambda host, config, state, packages: (Installer("/usr/bin/uv"), None, {}),
            secret=lambda ref: Secret("none"),
            clock=self.clock,
            operator=Operator("ada", "desk", os.getpid(), "boot"),
        )

    def _prove(
        self,
        host: SimHost,
        config: HostConfig,
        server: ServerConfig,
        service: SimService,
        expected: Expectation,
    ) -> Report:
        host.run(["evidence"])
        verdict = Verdict.FAIL if host.temper.broken else Verdict.PASS
        found = [
            Evidence(Kind.PROCESS, Verdict.PASS, "process", "active", "active", "systemd"),
            Evidence(Kind.ALIVE, Verdict.PASS, "alive", "200", "200", expected.url),
            Evidence(
                Kind.MARKER, verdict, "marker-absent" if host.temper.broken else "marker", "it", "?", "log"
            ),
        ]
        return Report(config.name, server.name, "", "", tuple(found))

    def each(self, keys: Sequence[HostConfig], ask: Callable[[HostConfig], Any], *, width: int) -> Any:
        """`specctl.host.parallel.each` under the clock."""
        from specctl.host.parallel import each

        def counted(key: HostConfig) -> Any:
            try:
                return ask(key)
            finally:
                self.clock.done()

        self.clock.begin(len(keys), width)
        try:
            return each(keys, counted, width=width)
        finally:
            self.clock.begin(1, 1)


class SimRun(Fleet):
    """A `Fleet` under the clock; notes the batches, and how many threads there were."""

    clock: SimClock
    batches: list[tuple[float, list[str]]]
    threads: int

    def _batch(self, batch: Any, name: Any, work: Any, results: Any) -> None:
        self.clock.begin(len(batch), self.widest)
        begin = self.clock.monotonic()
        super()._batch(batch, name, work, results)
        self.clock.begin(1, 1)
        self.batches.append((self.clock.monotonic() - begin, [name(item) for _, item in batch]))

    def _guarded(self, item: Any, name: Any, work: Any) -> HostResult:
        try:
            self.threads = max(self.threads, threading.active_count())
            return super()._guarded(item, name, work)
        finally:
            self.clock.done()


def sim_run(clock: SimClock, **settings: Any) -> SimRun:
    made = SimRun(**settings)
    made.clock, made.batches, made.threads = clock, [], 0
    return made
