"""A server under supervisor, for hosts without systemd: a small venv and a daemon below the host's root."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from specctl.config.model import Supervisor
from specctl.host.protocol import Host
from specctl.service.errors import ServiceError, SupervisorMissing
from specctl.service.logs import as_log_line, as_log_slice
from specctl.service.onhost import source, textlog
from specctl.service.protocol import Cursor, LogLine, LogSlice, ServiceState, StopOutcome, Unit, UnitFile
from specctl.service.stopping import await_gone, list_processes
from specctl.service.supervisor_conf import (
    SupervisorPaths,
    render_daemon,
    render_launcher,
    render_program,
)
from specctl.service.unit import MARKER_VARIABLE

REQUIREMENT = "supervisor>=4.2.5,<5"
INSTALL_S = 300.0
READ_S = 120.0
SETTLE_S = 15.0

# supervisor's process states in systemd's words
_ACTIVE = {
    "RUNNING": "active",
    "STARTING": "activating",
    "BACKOFF": "activating",
    "STOPPING": "deactivating",
    "STOPPED": "inactive",
    "EXITED": "inactive",
    "FATAL": "failed",
}


class SupervisorService:
    """One program of the supervisord below `root`.

    Args:
        host: where it lives.
        name: specctl-<server>.
        root: the host's root; supervisor lives in <root>/supervisor.
        folder: the server's own folder, which holds its log and launcher.
        python: the interpreter its venv is made from.
        find_links: a folder on the host with wheels, for hosts without an index; None: the host's own index.
        sudo: run everything as root.
        sleep: waits, in seconds.
    """

    kind = Supervisor.SUPERVISOR

    def __init__(
        self,
        host: Host,
        name: str,
        *,
        root: str,
        folder: str,
        python: str = "python3",
        find_links: str | None = None,
        sudo: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.host, self.name, self.sudo = host, name, sudo
        self.paths = SupervisorPaths(root)
        self.python, self.find_links = python, find_links
        self.folder = folder
        self.launcher = f"{folder}/launch.sh"
        self.log_file = f"{folder}/server.log"
        self._sleep = sleep

    # -- files

    def files(self, unit: Unit) -> tuple[UnitFile, ...]:
        return (
            UnitFile(self.launcher, render_launcher(unit).encode(), 0o755),
            UnitFile(self.paths.program(self.name), render_program(unit, self.launcher).encode()),
        )

    def installed(self, unit: Unit) -> bool:
        return all(self.host.read(f.path, sudo=self.sudo) == f.data for f in self.files(unit))

    def prepare(self) -> None:
        self._ensure_daemon()

    def install(self, unit: Unit) -> bool:
        """As the port says. The daemon is started before the program's file is written: a starting daemon
        starts every program it finds."""
        changed = self._ensure_daemon()
        for file in self.files(unit):
            if self.host.read(file.path, sudo=self.sudo) != file.data:
                self._mkdir(file.path.rsplit("/", 1)[0])
                self.host.write(file.data, file.path, mode=file.mode, sudo=self.sudo)
                changed = True
        return changed

    def uninstall(self) -> None:
        if self.state().exists:
            self.stop(30.0)
        for path in (self.paths.program(self.name), self.launcher):
            self.host.run(["rm", "-f", "--", path], sudo=self.sudo)
        self._rpc("remove")

    def _ensure_daemon(self) -> bool:
        """Make the venv, the configuration and the running daemon; False when all were there."""
        changed = False
        conf = render_daemon(self.paths).encode()
        if not self.host.run(["test", "-x", self.paths.daemon], sudo=self.sudo, check=False).ok:
            self._mkdir(self.paths.folder)
            venv = self.paths.python.rsplit("/bin/", 1)[0]
            self.host.run([self.python, "-m", "venv", venv], sudo=self.sudo, timeout_s=INSTALL_S)
            links = ["--no-index", "--find-links", self.find_links] if self.find_links else []
            pip = [self.paths.python, "-m", "pip", "install", "--disable-pip-version-check", "-q", *links]
            self.host.run([*pip, REQUIREMENT], sudo=self.sudo, timeout_s=INSTALL_S)
            changed = True
        if self.host.read(self.paths.conf, sudo=self.sudo) != conf:
            self._mkdir(self.paths.programs)
            self.host.write(conf, self.paths.conf, sudo=self.sudo)
            changed = True
        return bool(self._rpc("ensure").get("started")) or changed

    # -- life

    def start(self) -> None:
        self._rpc("ensure")
        self._rpc("start")

    def stop(self, timeout_s: float) -> StopOutcome:
        return self._stop(timeout_s, None)

    def restart(self, timeout_s: float, *, port: int | None = None) -> Cursor:
        self._stop(timeout_s, port)
        cursor = self.cursor()
        self.start()
        return cursor

    def _stop(self, timeout_s: float, port: int | None) -> StopOutcome:
        before = self.state()
        facts = {"cgroup": None, "marker": f"{MARKER_VARIABLE}={self.folder}", "pid": before.main_pid}
        pids = list_processes(self.host, facts, sudo=self.sudo)
        if before.exists:
            self._rpc("stop")
        outcome = await_gone(
            self.host, self.name, facts, pids, timeout_s=timeout_s, port=port, sudo=self.sudo
        )
        waited = 0.0
        while self.state().active in ("active", "activating", "deactivating") and waited < SETTLE_S:
            self._sleep(0.25)
            waited += 0.25
        return outcome

    def state(self) -> ServiceState:
        raw = self._rpc("info")
        info: Mapping[str, Any] = raw.get("info") or {}
        sub = str(info.get("statename", "" if raw.get("daemon") else "no daemon"))
        pid = int(info.get("pid") or 0)
        ticks = str(raw.get("ticks") or "")
        return ServiceState(
            unit=self.name,
            exists=bool(raw.get("known") or raw.get("file")),
            active=_ACTIVE.get(sub, "inactive" if raw.get("daemon") is not None else "unknown"),
            sub=sub,
            main_pid=pid,
            invocation=f"{pid}.{ticks}" if pid and ticks else "",
            restarts=None,
            since=float(info["start"]) if info.get("start") else None,
            pgid=pid or None,
            result=str(
                info.get("spawnerr") or (f"exit {info['exitstatus']}" if info.get("exitstatus") else "")
            ),
        )

    # -- the log

    def cursor(self) -> Cursor:
        raw = self._log({"op": "position"})
        return Cursor(f"file:{raw if isinstance(raw, str) else ''}")

    def lines_since(
        self,
        cursor: Cursor,
        *,
        invocation: str | None = None,
        match: Sequence[str] = (),
        limit: int = 2000,
        tail: int = 40,
    ) -> LogSlice:
        kind, _, value = cursor.value.partition(":")
        if kind not in ("file", ""):
            raise ServiceError(
                f"{cursor.value!r} is no place in a log file",
                code="cursor",
                context={"host": self.host.name, "unit": self.name},
                hint="the supervisor was changed since the last restart; restart the server with specctl",
            )
        raw = self._log(
            {"cursor": value, "invocation": invocation, "match": list(match), "limit": limit, "tail": tail}
        )
        return as_log_slice(raw, f"{self.log_file} on {self.host.name}, {cursor.words}")

    def follow(
        self,
        on_line: Callable[[LogLine], bool | None],
        *,
        cursor: Cursor | None = None,
        history: int = 20,
        timeout_s: float | None = None,
    ) -> None:
        if cursor is not None:
            found = self.lines_since(cursor, tail=0)
            if any(on_line(line) is False for line in found.lines):
                return
            history = 0

        def take(data: bytes) -> bool | None:
            data = data.rstrip(b"\n")
            if textlog.HEADER.match(data):
                return None
            return on_line(as_log_line(textlog.as_line(data, False, "")))

        command = ["tail", "-n", str(history), "-F", self.log_file]
        self.host.stream(command, take, timeout_s=timeout_s, sudo=self.sudo)

    # -- helpers

    def _log(self, params: Mapping[str, object]) -> object:
        whole = {**params, "path": self.log_file}
        return self.host.script(source("textlog"), whole, sudo=self.sudo, timeout_s=READ_S)

    def _mkdir(self, folder: str) -> None:
        self.host.run(["mkdir", "-p", folder], sudo=self.sudo)

    def _rpc(self, op: str) -> Mapping[str, Any]:
        params: dict[str, object] = {
            "op": op,
            "name": self.name,
            "socket": self.paths.socket,
            "daemon": self.paths.daemon,
            "conf": self.paths.conf,
            "file": self.paths.program(self.name),
        }
        raw = self.host.script(source("supervisord"), params, sudo=self.sudo, timeout_s=READ_S)
        if not isinstance(raw, dict) or "error" in raw:
            text = str(raw.get("error")) if isinstance(raw, dict) else "no answer"
            kind = SupervisorMissing if op == "ensure" else ServiceError
            control = f"{self.paths.python} -m supervisor.supervisorctl -c {self.paths.conf}"
            raise kind(
                f"supervisor could not {op} {self.name}: {text.splitlines()[0] if text else ''}",
                context={"host": self.host.name, "unit": self.name, "output": text},
                hint=f"look at it on the host: {control} status",
            )
        return raw
