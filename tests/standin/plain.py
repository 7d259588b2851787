"""A `Service` without a supervisor: a child process of the test, its launcher script and its log file."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from specctl.config.model import Supervisor
from specctl.service.logs import as_log_line, as_log_slice
from specctl.service.onhost import processes, textlog
from specctl.service.protocol import Cursor, LogLine, LogSlice, ServiceState, StopOutcome, Unit, UnitFile
from specctl.service.supervisor_conf import render_launcher


class PlainService:
    """Starts `unit` in `folder`. Nothing restarts it when it dies."""

    kind = Supervisor.SUPERVISOR

    def __init__(self, folder: Path, unit: Unit) -> None:
        self.name, self.folder, self.unit = unit.name, folder, unit
        self.script, self.log = folder / "launch.sh", folder / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def files(self, unit: Unit) -> tuple[UnitFile, ...]:
        return (UnitFile(str(self.script), render_launcher(unit).encode(), 0o755),)

    def installed(self, unit: Unit) -> bool:
        return self.script.exists() and self.script.read_bytes() == self.files(unit)[0].data

    def prepare(self) -> None:
        return

    def install(self, unit: Unit) -> bool:
        changed, self.unit = not self.installed(unit), unit
        self.script.write_bytes(self.files(unit)[0].data)
        return changed

    def uninstall(self) -> None:
        self.stop(1.0)

    def start(self) -> None:
        self.install(self.unit)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", str(self.script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self, timeout_s: float) -> StopOutcome:
        process, self.process = self.process, None
        if process is None or process.poll() is not None:
            return StopOutcome(False, False, 0.0)
        begin = time.monotonic()
        process.terminate()
        try:
            process.wait(timeout_s)
            killed = False
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed = True
        return StopOutcome(True, killed, time.monotonic() - begin)

    def restart(self, timeout_s: float, *, port: int | None = None) -> Cursor:
        self.stop(timeout_s)
        cursor = self.cursor()
        self.start()
        return cursor

    def state(self) -> ServiceState:
        if self.process is None:
            return ServiceState(self.name, True, "inactive", "STOPPED")
        if self.process.poll() is not None:
            return ServiceState(self.name, True, "failed", "EXITED", result=f"exit {self.process.returncode}")
        pid = self.process.pid
        return ServiceState(self.name, True, "active", "RUNNING", pid, f"{pid}.{processes.start_ticks(pid)}")

    def cursor(self) -> Cursor:
        return Cursor("file:" + textlog.position(str(self.log)))

    def lines_since(
        self,
        cursor: Cursor,
        *,
        invocation: str | None = None,
        match: Sequence[str] = (),
        limit: int = 2000,
        tail: int = 40,
    ) -> LogSlice:
        params = {
            "path": str(self.log),
            "cursor": cursor.value.partition(":")[2],
            "invocation": invocation,
            "match": list(match),
            "limit": limit,
            "tail": tail,
        }
        return as_log_slice(textlog.read(params), str(self.log))

    def follow(
        self,
        on_line: Callable[[LogLine], bool | None],
        *,
        cursor: Cursor | None = None,
        history: int = 20,
        timeout_s: float | None = None,
    ) -> None:
        for data in self.log.read_bytes().splitlines()[-history:]:
            on_line(as_log_line(textlog.as_line(data, False, "")))
