"""The operator's own machine as a host: the same commands and programs, without a network between."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from typing import IO

from specctl.host import command
from specctl.host.call import Call
from specctl.host.capture import Capture
from specctl.host.commands import CommandHost
from specctl.host.errors import CommandFailed, HostTimeout
from specctl.host.feeder import Feeder
from specctl.host.protocol import Result, tail_of

_READ = 64 << 10  # bytes
_LATE_OUTPUT_S = 0.5  # how long output is waited for once the command has ended


class LocalHost(CommandHost):
    """Runs commands as child processes; `close` has nothing to do."""

    @property
    def is_root(self) -> bool:
        return os.geteuid() == 0

    def close(self) -> None:
        """Nothing is held between calls."""

    def _execute(self, call: Call) -> Result:
        words = command.wrap(
            call.argv,
            sudo=call.sudo,
            env=call.env,
            cwd=call.cwd,
            # root's processes cannot be killed from here: there the command ends itself
            deadline_s=call.timeout_s if call.sudo and shutil.which("timeout") else None,
        )
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL if call.stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as exc:
            if call.sudo and isinstance(exc, FileNotFoundError):
                return Result(call.shown, 127, b"", str(exc).encode(), 0.0)  # as a shell on a host says it
            raise CommandFailed(
                f"{words[0]} cannot be started on {self.name}",
                context={"host": self.name, "command": command.shown(call.shown), "cause": str(exc)},
            ) from exc
        feeder = _feed(call, process.stdin)
        out, err = Capture(call.keep), Capture(call.keep)
        try:
            ended = self._pump(call, process, feeder, out, err)
        finally:
            _end(process)
        seconds = time.monotonic() - began
        if not ended:
            raise timed_out(self.name, call, out, err)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Result(call.shown, code, out.value(), err.value(), seconds, out.dropped + err.dropped)

    def _pump(
        self, call: Call, process: subprocess.Popen[bytes], feeder: Feeder | None, out: Capture, err: Capture
    ) -> bool:
        """Move output until the command is over; False when the deadline came first."""
        last = time.monotonic()
        over: float | None = None
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout or 0, selectors.EVENT_READ, out)
            ready.register(process.stderr or 0, selectors.EVENT_READ, err)
            while ready.get_map():
                moved = False
                for key, _ in ready.select(0.05):
                    data = os.read(key.fd, _READ)
                    if not data:
                        ready.unregister(key.fileobj)
                    elif key.data is out and call.lines is not None:
                        call.lines.feed(data)
                        if call.lines.stopped:
                            return True
                    else:
                        key.data.feed(data)
                        moved = True
                now = time.monotonic()
                if call.stall and (moved or (feeder is not None and feeder.moved())):
                    last = now
                if call.timeout_s is not None and now - last > call.timeout_s:
                    return False
                if process.poll() is not None:  # a child of its own may hold the pipes open for ever
                    over = over or now
                    if now - over > _LATE_OUTPUT_S:
                        break
        if call.lines is not None:
            call.lines.close()
        left = None if call.timeout_s is None else max(0.0, last + call.timeout_s - time.monotonic())
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(left)
        return process.poll() is not None


def _feed(call: Call, pipe: IO[bytes] | None) -> Feeder | None:
    if call.stdin is None or pipe is None:
        return None

    def send(data: bytes) -> None:
        pipe.write(data)
        pipe.flush()

    return Feeder(call.stdin, send, pipe.close)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the command's process group and close the pipes."""
    if process.poll() is None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0 if sign is signal.SIGTERM else 5.0)
                break
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def timed_out(host: str, call: Call, out: Capture, err: Capture) -> HostTimeout:
    """The error of a command that did not end by its deadline."""
    tail = tail_of(err.value().strip() or out.value().strip())
    what = "got no further" if call.stall else "did not end"
    return HostTimeout(
        f"{call.shown[0]} {what} within {call.timeout_s:g} s on {host}",
        context={
            "host": host,
            "command": command.shown(call.shown),
            "output so far": tail or "(none)",
        },
        hint="it may still be running there; every step of specctl can be repeated",
    )
