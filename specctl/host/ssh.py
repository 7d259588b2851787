"""A host behind ssh. Each command is one channel of one connection, which is opened when first needed."""

from __future__ import annotations

import contextlib
import select
import threading
import time

import paramiko

from specctl.config.model import SshConfig
from specctl.host import command, ssh_config
from specctl.host.call import Call
from specctl.host.capture import Capture
from specctl.host.commands import CommandHost
from specctl.host.connection import Chain, open_chain
from specctl.host.errors import HostError, Unreachable
from specctl.host.feeder import Feeder
from specctl.host.local import timed_out
from specctl.host.protocol import Result

_READ = 64 << 10  # bytes
_LONGEST_LINE = 120 << 10  # bytes of a command line; Linux allows 128 KiB for one argument
_GRACE_S = 5.0  # by how much the host's own deadline is later than ours
_LATE_OUTPUT_S = 0.5  # how long output is waited for once the command has ended


class SshHost(CommandHost):
    """One host of the inventory, by ssh.

    A connection that died is opened anew only for what may be repeated (`script`, `read`), and only when
    nothing had been sent. Everything else says `Unreachable` once, so that the caller looks at the host
    before it goes on; the call after that connects again.
    """

    def __init__(self, name: str, ssh: SshConfig, *, python: str = "python3") -> None:
        super().__init__(name, command_timeout_s=ssh.command_timeout_s, python=python)
        self._ssh = ssh
        self._hops = ssh_config.hops(ssh)
        self._chain: Chain | None = None
        self._lock = threading.Lock()

    @property
    def is_root(self) -> bool:
        return self._hops[-1].user == "root"

    @property
    def shown(self) -> str:
        """Where the connection leads, for people."""
        return " -> ".join(hop.shown for hop in self._hops)

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        with self._lock:
            chain, self._chain = self._chain, None
        if chain is not None:
            chain.close()

    # -- connection

    def _channel(self, call: Call) -> paramiko.Channel:
        with self._lock:
            fresh = self._chain is None
            if self._chain is None:
                self._chain = self._connect()
            try:
                return self._session(self._chain)
            except (paramiko.SSHException, OSError, EOFError) as exc:
                if isinstance(exc, paramiko.ChannelException) and self._chain.alive:
                    raise HostError(
                        f"{self.name} refuses another session: {exc.text}",
                        context={"host": self.name},
                        hint="MaxSessions of its sshd may be too low",
                    ) from exc
                self._chain.close()
                self._chain = None
                if fresh or not call.repeatable:
                    raise self._lost(call, exc, started=False) from exc
            self._chain = self._connect()
            try:
                return self._session(self._chain)
            except (paramiko.SSHException, OSError, EOFError) as exc:
                self._chain.close()
                self._chain = None
                raise self._lost(call, exc, started=False) from exc

    def _connect(self) -> Chain:
        return open_chain(self.name, self._hops, self._ssh.connect_timeout_s)

    def _session(self, chain: Chain) -> paramiko.Channel:
        return chain.transport.open_session(timeout=self._ssh.connect_timeout_s)

    def _forget(self, channel: paramiko.Channel) -> None:
        """Close the connection that a channel belonged to."""
        with self._lock:
            if self._chain is not None and self._chain.transport is channel.get_transport():
                self._chain.close()
                self._chain = None

    def _lost(self, call: Call, exc: BaseException | None, *, started: bool) -> Unreachable:
        what = f"while {call.shown[0]} ran" if started else f"before {call.shown[0]} was sent"
        context = {"host": self.name, "connection": self.shown, "command": command.shown(call.shown)}
        if exc is not None:
            context["cause"] = f"{type(exc).__name__}: {exc}".rstrip(": ")
        hint = "it may still be running there" if started else "nothing was changed by it"
        error = Unreachable(
            f"the connection to {self.name} was lost {what}",
            context=context,
            hint=f"{hint}; every step of specctl can be repeated",
        )
        error.started = started
        return error

    # -- commands

    def _execute(self, call: Call) -> Result:
        line = self._line(call)
        channel = self._channel(call)
        began = time.monotonic()
        out, err = Capture(call.keep), Capture(call.keep)
        try:
            self._start(call, channel, line, began, out, err)
            feeder = _feed(call, channel)
            if not self._pump(call, channel, feeder, out, err, began):
                if feeder is not None and feeder.busy:
                    self._forget(channel)  # it may hold the connection's lock for ever
                raise timed_out(self.name, call, out, err)
            code = -1 if call.lines is not None and call.lines.stopped else self._exit_code(call, channel)
        finally:
            with contextlib.suppress(Exception):  # a lost link may raise anything here
                channel.close()
        return Result(
            call.shown, code, out.value(), err.value(), time.monotonic() - began, out.dropped + err.dropped
        )

    def _line(self, call: Call) -> str:
        deadline = None if call.timeout_s is None or call.stall else call.timeout_s + _GRACE_S
        line = command.line(
            command.wrap(
                call.argv,
                sudo=call.sudo,
                env=call.env,
                cwd=call.cwd,
                deadline_s=deadline,
                watched=call.lines is not None,
            )
        )
        if len(line.encode()) > _LONGEST_LINE:
            raise HostError(
                f"the command for {self.name} is too long: {len(line)} characters",
                context={"host": self.name, "command": command.shown(call.shown)},
                hint="hand the data over on stdin",
            )
        return line

    def _start(
        self, call: Call, channel: paramiko.Channel, line: str, began: float, out: Capture, err: Capture
    ) -> None:
        # The request waits for an answer without a limit of its own, and a frozen host never gives one.
        limit = self._timeout_s if call.timeout_s is None else call.timeout_s
        watchdog = threading.Timer(limit, channel.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            channel.exec_command(line)
        except (paramiko.SSHException, OSError, EOFError) as exc:
            late = time.monotonic() - began >= limit
            self._forget(channel)
            if late:
                raise timed_out(self.name, call, out, err) from exc
            raise self._lost(call, exc, started=True) from exc
        finally:
            watchdog.cancel()

    def _pump(
        self,
        call: Call,
        channel: paramiko.Channel,
        feeder: Feeder | None,
        out: Capture,
        err: Capture,
        began: float,
    ) -> bool:
        """Move output until the command is over; False when the deadline came first."""
        ready = select.poll()
        ready.register(channel.fileno(), select.POLLIN)
        last, over = began, None
        while True:
            moved = _drain(channel, call, out, err)
            if call.lines is not None and call.lines.stopped:
                return True
            now = time.monotonic()
            if call.stall and (moved or (feeder is not None and feeder.moved())):
                last = now
            finished = channel.exit_status_ready()
            if finished and not moved:
                over = over or now
                # a child of the command's own may hold its output open for ever
                if channel.eof_received or channel.closed or now - over > _LATE_OUTPUT_S:
                    break
            if call.timeout_s is not None and now - last > call.timeout_s:
                return False
            if moved:
                continue
            if channel.eof_received:  # from here on the descriptor is always ready
                channel.status_event.wait(0.1)
            else:
                ready.poll(100)
        if call.lines is not None:
            call.lines.close()
        return True

    def _exit_code(self, call: Call, channel: paramiko.Channel) -> int:
        code = channel.recv_exit_status()
        if code == -1:  # the command's own death by a signal reads 128 + N, see `command.wrap`
            self._forget(channel)
            raise self._lost(call, None, started=True)
        return code


def _feed(call: Call, channel: paramiko.Channel) -> Feeder | None:
    if call.stdin is not None:
        return Feeder(call.stdin, channel.sendall, channel.shutdown_write)
    if call.lines is None:  # a watched command takes the end of its stdin as the order to stop
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.shutdown_write()
    return None


def _drain(channel: paramiko.Channel, call: Call, out: Capture, err: Capture) -> bool:
    """Take what has come, but not so much that a flood keeps us from looking at the clock."""
    moved = False
    for _ in range(16):
        some = False
        if channel.recv_ready():
            data = channel.recv(_READ)
            some = bool(data)
            (call.lines or out).feed(data)
        if channel.recv_stderr_ready():
            data = channel.recv_stderr(_READ)
            some = some or bool(data)
            err.feed(data)
        if not some:
            break
        moved = True
    return moved
