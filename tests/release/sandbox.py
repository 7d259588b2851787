"""A whole host for the release engine on this machine: a root folder, real venvs, real stand-in servers.

Only three things are not real: the supervisor (`PlainService` starts processes itself), the clock (it does
not wait for what it is asked to wait for) and the evidence (marker and health, in a few lines).
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from config.builders import make_host, make_server
from standin.build import make_standin_distribution

from specctl.build.distribution import Distribution
from specctl.config.model import HostConfig, SecretRef, ServerConfig, SshConfig, Supervisor, Timers
from specctl.config.secrets import Secret
from specctl.evidence.model import Evidence, Expectation, Kind, Report, Verdict
from specctl.host.local import LocalHost
from specctl.host.protocol import Host
from specctl.release.clock import Operator
from specctl.release.deploy_plan import Installer
from specctl.release.engine import Engine, Ports
from specctl.release.makers import deploy_maker, rollback_maker
from specctl.release.plan import Plan
from specctl.release.result import HostResult
from specctl.release.source import SourceFolder, own_uv
from specctl.release.state import HostState
from specctl.release.survey import Surveyor
from specctl.service.protocol import Cursor, LogLine, LogSlice, ServiceState, StopOutcome, Unit, UnitFile

MARKER = "Dynamic speculation disable enabled"


class FastClock:
    """Its seconds pass as they are asked for; the real ones are much shorter."""

    def __init__(self, shortest: float = 0.03) -> None:
        self._ahead, self._shortest, self._guard = 0.0, shortest, threading.Lock()

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    def sleep(self, seconds: float) -> None:
        real = min(seconds, self._shortest)
        time.sleep(real)
        with self._guard:
            self._ahead += seconds - real


class PlainService:
    """A `Service` without a supervisor: it starts the unit's command itself and restarts nothing."""

    kind = Supervisor.SUPERVISOR

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, f"specctl-{name}"
        self.log = folder / "server.log"
        self.calls: list[str] = []
        self.fail_next: dict[str, Exception] = {}

    def files(self, unit: Unit) -> tuple[UnitFile, ...]:
        data = {"argv": list(unit.argv), "env": dict(unit.env), "env_file": unit.env_file}
        return (UnitFile(str(self.folder / "unit.json"), json.dumps(data, sort_keys=True).encode()),)

    def installed(self, unit: Unit) -> bool:
        return all(Path(f.path).is_file() and Path(f.path).read_bytes() == f.data for f in self.files(unit))

    def prepare(self) -> None:
        self._called("prepare")

    def install(self, unit: Unit) -> bool:
        self._called("install")
        changed = not self.installed(unit)
        for file in self.files(unit):
            Path(file.path).write_bytes(file.data)
        return changed

    def uninstall(self) -> None:
        self._called("uninstall")
        self.stop(5.0)
        (self.folder / "unit.json").unlink(missing_ok=True)

    def start(self) -> None:
        self._called("start")
        unit = json.loads((self.folder / "unit.json").read_bytes())
        env = {**os.environ, **unit["env"]}
        if unit["env_file"]:
            for line in Path(unit["env_file"]).read_text().splitlines():
                key, _, value = line.partition("=")
                env[key] = value.strip('"')
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                unit["argv"],
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _CHILDREN[child.pid] = child
        (self.folder / "pid").write_text(str(child.pid))

    def stop(self, timeout_s: float) -> StopOutcome:
        self._called("stop")
        pid = self._pid()
        if not pid:
            return StopOutcome(False, False, 0.0)
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(pid, number)
            except ProcessLookupError:
                break
            end = time.monotonic() + 3.0
            while self._pid() and time.monotonic() < end:
                time.sleep(0.02)
        (self.folder / "pid").unlink(missing_ok=True)
        return StopOutcome(True, False, 0.0)

    def restart(self, timeout_s: float, *, port: int | None = None) -> Cursor:
        self.stop(timeout_s)
        cursor = self.cursor()
        self.start()
        return cursor

    def state(self) -> ServiceState:
        pid = self._pid()
        known = (self.folder / "pid").exists()
        active = "active" if pid else "failed" if known else "inactive"
        return ServiceState(self.name, (self.folder / "unit.json").exists(), active, active, pid, str(pid), 0)

    def cursor(self) -> Cursor:
        return Cursor(f"file:{self.log.stat().st_size if self.log.exists() else 0}")

    def lines_since(self, cursor: Cursor, *, match: Any = (), tail: int = 40, **_: Any) -> LogSlice:
        offset = int(cursor.value.partition(":")[2] or 0)
        data = self.log.read_bytes()[offset:] if self.log.exists() else b""
        lines = [LogLine(t) for t in data.decode("utf-8", "replace").splitlines()]
        found = tuple(x for x in lines if not match or any(m in x.text for m in match))
        return LogSlice(found, str(self.log), tail=tuple(lines[-tail:]))

    def follow(self, on_line: Any, **_: Any) -> None:
        raise NotImplementedError

    def _pid(self) -> int:
        try:
            pid = int((self.folder / "pid").read_text())
        except (OSError, ValueError):
            return 0
        child = _CHILDREN.get(pid)
        if child is not None and child.poll() is not None:
            return 0
        return pid if Path(f"/proc/{pid}").exists() else 0

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if what in self.fail_next:
            raise self.fail_next.pop(what)


_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


def prove(
    host: Host, config: HostConfig, server: ServerConfig, service: PlainService, expected: Expectation
) -> Report:
    """Marker with the right threshold, a healthy answer, and a living process."""
    found: list[Evidence] = []

    def say(kind: Kind, ok: bool, code: str, seen: str) -> None:
        found.append(Evidence(kind, Verdict.PASS if ok else Verdict.FAIL, code, "it", seen, str(service.log)))

    say(Kind.PROCESS, service.state().running, "process", service.state().active)
    raw = Path(config.root, "servers", server.name, "state.json").read_text()
    lines = service.lines_since(Cursor(json.loads(raw)["cursor"]), match=(MARKER,)).lines
    wanted = f"threshold={expected.threshold} "
    say(Kind.MARKER, any(wanted in x.text for x in lines), "marker-absent", f"{len(lines)} markers")
    try:
        with urllib.request.urlopen(expected.url + "/health", timeout=5) as answer:
            say(Kind.ALIVE, answer.status == 200, "alive", str(answer.status))
    except OSError as exc:
        say(Kind.ALIVE, False, "alive", str(exc))
    return Report(config.name, server.name, "", "", tuple(found))


def expect(host: Host, config: HostConfig, server: ServerConfig, distribution: Distribution) -> Expectation:
    threshold = server.threshold.disable if server.threshold else None
    return Expectation(
        server=server.name,
        distribution=distribution.version,
        files=dict(distribution.files),
        worker="EAGLEWorker",
        threshold=threshold,
        url=f"http://127.0.0.1:{server.port}",
        covers=("EAGLEWorker", "EAGLEWorkerV2"),
    )


def free_port() -> int:
    """A port that no outgoing connection of a busy machine takes while the server is being restarted."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def uv_installer(
    host: Host, config: HostConfig, state: HostState, packages: int
) -> tuple[Installer, int | None, dict[str, str]]:
    found = own_uv()
    assert found is not None
    return Installer(uv=found[1].local), None, {}


@dataclass
class Sandbox:
    """One host with its servers, and short ways to deploy and roll back."""

    folder: Path
    servers: tuple[ServerConfig, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the HostConfig
    secrets: dict[str, str] = field(default_factory=dict)
    connect: Callable[[HostConfig], Host] = lambda config: LocalHost(config.name)
    clock: FastClock = field(default_factory=FastClock)
    steps: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.servers:
            self.servers = (self.server("main"),)
        self._services: dict[str, PlainService] = {}
        self.engine = Engine(self.ports(), on_step=self._stepped)

    def server(self, name: str, **changes: Any) -> ServerConfig:
        timers = Timers(start_s=60.0, hold_s=4.0, stop_s=5.0)
        return make_server(name, **{"port": free_port(), "timers": timers, **changes})

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def config(self) -> HostConfig:
        ssh = SshConfig(address="localhost")
        fields = {"ssh": ssh, "root": str(self.root), "python": sys.executable, "connection": "local"}
        fields["supervisor"] = Supervisor.SUPERVISOR
        return make_host("here", *self.servers, **{**fields, **self.changes})

    def change(self, name: str, **changes: Any) -> None:
        """Another inventory from now on."""
        self.servers = tuple(replace(s, **changes) if s.name == name else s for s in self.servers)

    def service(self, name: str) -> PlainService:
        if name not in self._services:
            folder = self.root / "servers" / name
            self._services[name] = PlainService(folder, name)
        return self._services[name]

    def ports(self) -> Ports:
        return Ports(
            connect=lambda config: self.connect(config),
            service=lambda host, config, server: self.service(server.name),
            expect=expect,
            prove=prove,  # type: ignore[arg-type]
            installer=uv_installer,
            secret=self._secret,
            clock=self.clock,
            operator=Operator("ada", "desk", os.getpid(), Operator.here().boot),
        )

    def _secret(self, ref: SecretRef) -> Secret:
        return Secret(self.secrets[ref.source])

    def _stepped(self, host: str, action: Any, event: str) -> None:
        self.steps.append((action.kind, event))

    # -- what tests do

    def dist(self, number: int, **knobs: Any) -> Path:
        folder = self.folder / f"dist-{number}"
        if not folder.exists():
            make_standin_distribution(folder, f"0.5.9+specctl.{number}", **knobs)
        return folder

    def maker(self, folder: Path) -> Callable[[Surveyor], Plan]:
        return deploy_maker(self.engine.ports, SourceFolder(folder))

    def plan(self, folder: Path) -> Plan:
        return self.engine.plan(self.config, self.maker(folder))

    def deploy(self, folder: Path, **more: Any) -> HostResult:
        return self.engine.run(self.config, self.maker(folder), command="deploy", what="deploy", **more)

    def rollback(self, to: str | None = None) -> HostResult:
        return self.engine.run(
            self.config, rollback_maker(self.engine.ports, to), command="rollback", what="rollback"
        )

    def current(self, name: str = "main") -> str | None:
        link = self.root / "servers" / name / "current"
        return link.readlink().name if link.is_symlink() else None

    def version(self, name: str = "main") -> str | None:
        """What serves right now, by its own word."""
        port = next(s.port for s in self.servers if s.name == name)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5) as answer:
                return str(json.loads(answer.read())["version"])
        except OSError:
            return None

    def state(self) -> HostState:
        with self.engine.surveyor(self.config) as surveyor:
            return surveyor.state()

    def release(self, number: int) -> str:
        """The id of the release of distribution `number` on this host."""
        return SourceFolder(self.folder / f"dist-{number}").release_of(self.config)

    def close(self) -> None:
        for service in self._services.values():
            service.fail_next.clear()
            if service.folder.exists():
                service.stop(5.0)
