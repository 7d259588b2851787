"""What a host says about its releases, servers, lock and unfinished run: what plans are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ReleaseState:
    """One folder below releases/."""

    id: str
    complete: bool
    failed: str | None = None  # the reason that was written down, None when it is not marked failed
    version: str | None = None  # from its dist.json
    completed_at: float = 0.0  # seconds since the epoch, written into COMPLETE (not the file's mtime)


@dataclass(frozen=True)
class Good:
    """A state of one server that passed the gate: the release, and the unit and secrets that went with it."""

    release: str
    unit_sha256: str  # over the unit's files
    at: str  # ISO 8601, UTC
    by: str  # who@where
    run: str
    secrets: str | None = None  # salted digest of the secret values, None without secrets
    unit: Mapping[str, Any] = field(default_factory=dict)  # service.protocol.Unit as JSON
    expectation: Mapping[str, Any] = field(default_factory=dict)  # evidence.model.Expectation as JSON


@dataclass(frozen=True)
class ServerRecord:
    """What the host has written down about one server.

    `goods` is a stack, the newest last. A deploy pushes, a rollback drops what it left: so the next rollback
    goes one further back, and never returns to the release it came from.
    """

    name: str
    current: str | None = None  # release id that `current` points to
    goods: tuple[Good, ...] = ()
    unit_sha256: str | None = None  # over the unit's files as they lie there now
    secrets: str | None = None

    @property
    def good(self) -> Good | None:
        return self.goods[-1] if self.goods else None

    @property
    def before(self) -> Good | None:
        """The newest good state of another release than the top one: where a plain rollback leads."""
        top = self.good
        return next((g for g in reversed(self.goods) if top is not None and g.release != top.release), None)

    @property
    def proven(self) -> bool:
        """`current` is what last passed the gate, with the same unit and secrets."""
        good = self.good
        return good is not None and (good.release, good.unit_sha256, good.secrets) == (
            self.current,
            self.unit_sha256,
            self.secrets,
        )


@dataclass(frozen=True)
class Pending:
    """A run that began and has written no end: the operator's machine died, or it is at work right now."""

    run: str
    command: str  # deploy | rollback
    release: str
    by: str
    started_at: str
    journal: str
    step: str = ""  # the last action that began
    server: str | None = None
    ended: bool = False  # whether that action's end was written


@dataclass(frozen=True)
class Deadman:
    """The timer that undoes a change whose operator does not return."""

    run: str
    state: str  # armed | firing | fired | disarmed
    outcome: str = ""


@dataclass(frozen=True)
class LockInfo:
    """Who holds the host's lock, for what, and how long it has been silent."""

    run: str
    who: str
    where: str
    what: str
    since: str  # ISO 8601, by the clock of `where`, which may be wrong
    pid: int
    boot: str  # boot id of the holder's machine, so that its process can be looked up there
    step: str = ""
    overdue_s: float = (
        0.0  # seconds past the time by which the holder promised to be heard from; <= 0: in time
    )
    processes: tuple[int, ...] = ()  # processes of that run which are still alive on this host

    age_s: float | None = None  # seconds since it was taken, by the host; None: before the host restarted

    @property
    def age(self) -> str:
        """For how long it is held. No time of day: clocks of holder, host and reader may differ by hours."""
        if self.age_s is None:
            return "from before the host restarted"
        minutes, seconds = divmod(int(self.age_s), 60)
        hours, minutes = divmod(minutes, 60)
        parts = ((hours, "h"), (minutes, "min"), (seconds, "s"))
        shown = [f"{number} {unit}" for number, unit in parts if number][:2]
        return f"for {' '.join(shown) or '0 s'} by the host's clock"

    def describe(self) -> str:
        text = f"{self.who} on {self.where}, {self.age}, for {self.what}"
        return f"{text}, at {self.step}" if self.step else text


@dataclass(frozen=True)
class HostState:
    """Everything below one root, from one moment; an untouched host has `exists` False and nothing else."""

    exists: bool = False
    salt: str | None = None
    releases: Mapping[str, ReleaseState] = field(default_factory=dict)
    servers: Mapping[str, ServerRecord] = field(default_factory=dict)
    lock: LockInfo | None = None
    pending: Pending | None = None
    deadman: Deadman | None = None
    tools: tuple[str, ...] = ()  # file names below bin/
    wheels: Mapping[str, str] = field(default_factory=dict)  # file name -> sha256 checked when it was pushed
    supervisor: bool = False  # specctl's own supervisord is installed
    exposed: str = ""  # why somebody else could change what is here

    def server(self, name: str) -> ServerRecord:
        return self.servers.get(name) or ServerRecord(name)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> HostState:
        """From what onhost/state.py printed."""
        lock = raw.get("lock")
        return cls(
            exists=bool(raw["exists"]),
            salt=raw.get("salt"),
            releases={r["id"]: ReleaseState(**r) for r in raw.get("releases", ())},
            servers={
                s["name"]: ServerRecord(**{**s, "goods": tuple(Good(**g) for g in s.get("goods", ()))})
                for s in raw.get("servers", ())
            },
            lock=LockInfo(**{**lock, "processes": tuple(lock.get("processes", ()))}) if lock else None,
            pending=Pending(**raw["pending"]) if raw.get("pending") else None,
            deadman=Deadman(**raw["deadman"]) if raw.get("deadman") else None,
            tools=tuple(raw.get("tools", ())),
            wheels=dict(raw.get("wheels", {})),
            supervisor=bool(raw.get("supervisor")),
            exposed=str(raw.get("exposed", "")),
        )
