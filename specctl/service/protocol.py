"""The one port through which a server is started, stopped and listened to, whatever supervises it.

`systemd`, `systemd --user` and `supervisor` implement `Service`;
`specctl.service.factory.service_for` picks one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specctl.config.model import Supervisor


@dataclass(frozen=True)
class UnitFile:
    """One file that makes up an installed unit, exactly as it must lie on the host."""

    path: str
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Unit:
    """What one server runs, free of any supervisor's syntax. Pure data, so that a plan can hold it."""

    name: str  # specctl-<server>, without a suffix
    description: str
    argv: tuple[str, ...]  # argv[0] is an absolute path
    working_dir: str  # absolute path
    env: Mapping[str, str] = field(default_factory=dict)  # nothing secret
    env_file: str | None = None  # absolute path of a 0600 file with the secrets; None: there are none
    log_file: str | None = None  # absolute path; only used where no journal exists
    user: str | None = None  # None: the user that the supervisor runs as
    stop_s: float = 120.0  # seconds from SIGTERM to SIGKILL
    start_limit: int = 5  # starts within start_window_s before the supervisor gives up
    start_window_s: float = 3600.0


@dataclass(frozen=True)
class ServiceState:
    """One look at a service. `active` uses systemd's words for every supervisor."""

    unit: str
    exists: bool
    active: str  # active | activating | deactivating | inactive | failed | unknown
    sub: str  # the supervisor's own word: running, auto-restart, FATAL, ...
    main_pid: int = 0  # 0: no process
    invocation: str = ""  # changes at every start of the unit; "" before the first one
    restarts: int | None = (
        None  # automatic restarts since the last asked start; None: the supervisor cannot tell
    )
    since: float | None = None  # seconds since the epoch, host clock, when it became active
    cgroup: str | None = None  # path below /sys/fs/cgroup, systemd only
    pgid: int | None = None  # process group of the main process, where there is no cgroup of its own
    result: str = ""  # why it ended, as the supervisor says it

    @property
    def running(self) -> bool:
        """A main process exists and the supervisor calls it active."""
        return self.active == "active" and self.main_pid > 0


@dataclass(frozen=True)
class Cursor:
    """A place in a service's log. Opaque: `journal:<cursor>` or `file:<device>:<inode>:<offset>`.

    The empty place (`journal:` or `file:`) is the beginning of the log.
    """

    value: str

    @property
    def words(self) -> str:
        """For people: "from its beginning", "after entry 7d", "after byte 4096"."""
        kind, _, place = self.value.partition(":")
        if not place:
            return "from its beginning"
        if kind == "file":
            return f"after byte {place.rpartition(':')[2]}"
        entry = [part[2:] for part in place.split(";") if part.startswith("i=")]
        return f"after entry {entry[0]}" if entry else "after the cursor"


@dataclass(frozen=True)
class LogLine:
    """One line of a service's log."""

    text: str  # bytes that are not UTF-8 became U+FFFD
    at: float | None = None  # seconds since the epoch, host clock; None where the log has no clock of its own
    invocation: str = ""  # "" where the log cannot tell
    utf8: bool = True
    cut: bool = False  # it was longer than the limit


@dataclass(frozen=True)
class LogSlice:
    """What was found in a log after a cursor.

    `lines` holds the lines that matched and that belong to the asked invocation; `earlier` those that
    matched but came before the cursor or from another invocation; `tail` the last lines whether they
    matched or not.
    """

    lines: tuple[LogLine, ...]
    where: str  # the command or the file that was read
    earlier: tuple[LogLine, ...] = ()
    tail: tuple[LogLine, ...] = ()
    dropped: int | None = 0  # lines known to be lost; None: lines may be lost and nothing counts them
    complete: bool = True  # False: the log was cut, rotated or could not be read to its end
    reason: str = ""  # why it is not complete, or why `dropped` is not 0
    not_utf8: int = 0  # lines seen after the cursor that were not UTF-8
    seen: int = 0  # lines seen after the cursor, matching or not


@dataclass(frozen=True)
class StopOutcome:
    """How a stop went."""

    was_running: bool
    killed: bool  # SIGKILL was needed
    seconds: float
    left: tuple[int, ...] = ()  # PIDs that could not be made to go (a stop with any left raises instead)


class Service(Protocol):
    """One server's unit on one host.

    All methods may raise the errors of `specctl.host.errors`, and `specctl.service.errors.ServiceError`.
    """

    name: str  # the unit's name as the supervisor knows it, e.g. specctl-main.service
    kind: Supervisor

    def files(self, unit: Unit) -> tuple[UnitFile, ...]:
        """The files that `install` would write, byte for byte; touches nothing."""
        ...

    def installed(self, unit: Unit) -> bool:
        """Whether every file of the unit lies on the host with exactly these bytes. Reads only."""
        ...

    def prepare(self) -> None:
        """Have the supervisor itself there and running, where that is ours to do. Starts no server."""
        ...

    def install(self, unit: Unit) -> bool:
        """Write the unit, make the supervisor read it and start it at boot. False: it was there already."""
        ...

    def uninstall(self) -> None:
        """Stop the unit and remove its files. Nothing to remove is no error."""
        ...

    def start(self) -> None:
        """Start it; returns when the supervisor took the order, not when the server is healthy."""
        ...

    def stop(self, timeout_s: float) -> StopOutcome:
        """Stop it and wait until its processes, and what they held of the GPUs, are gone.

        SIGTERM first, SIGKILL after `timeout_s`. Raises `StillThere` when something outlives SIGKILL.
        """
        ...

    def restart(self, timeout_s: float, *, port: int | None = None) -> Cursor:
        """Stop as `stop` does, wait for `port` to be free, take the cursor, start. Returns that cursor."""
        ...

    def state(self) -> ServiceState: ...

    def cursor(self) -> Cursor:
        """The present end of the log: what comes later is after it."""
        ...

    def lines_since(
        self,
        cursor: Cursor,
        *,
        invocation: str | None = None,
        match: Sequence[str] = (),
        limit: int = 2000,
        tail: int = 40,
    ) -> LogSlice:
        """Read the log after `cursor`.

        Args:
            invocation: only lines of this invocation are `lines`; None: of any.
            match: a line counts when it contains one of these texts; empty: every line counts.
            limit: the most lines that are kept (the newest).
            tail: how many of the last lines to bring along, matching or not.
        """
        ...

    def follow(
        self,
        on_line: Callable[[LogLine], bool | None],
        *,
        cursor: Cursor | None = None,
        history: int = 20,
        timeout_s: float | None = None,
    ) -> None:
        """Hand over log lines as they come until `on_line` returns False or `timeout_s` has passed.

        Starts after `cursor`, or with the last `history` lines.
        """
        ...
