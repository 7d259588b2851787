"""What a host is running and whether that is what the inventory says. Pure but for the survey it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from specctl.config.model import HostConfig
from specctl.release.clock import Operator
from specctl.release.deploy_plan import HostFacts, change_of
from specctl.release.state import HostState


@dataclass(frozen=True)
class ServerStatus:
    """One server of one host."""

    host: str
    server: str
    release: str | None
    state: str  # good | not proven | none | broken
    process: str  # running | not running
    previous: str | None  # where a rollback would lead
    drift: tuple[str, ...]  # how it differs from the inventory (and the distribution, where one was named)


@dataclass(frozen=True)
class HostStatus:
    """One host."""

    host: str
    servers: tuple[ServerStatus, ...]
    lock: str | None  # who holds it
    unfinished: str | None  # what a lost run left, and what to do about it

    @property
    def drifts(self) -> bool:
        return self.unfinished is not None or any(s.drift for s in self.servers)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "drift": self.drifts}


def status_of(
    facts: HostFacts, release_of: Callable[[HostConfig], str] | None, operator: Operator
) -> HostStatus:
    """Judge one host. `release_of`: the release that should serve there; None: whatever serves is right."""
    state = facts.state
    servers = []
    for server in facts.servers:
        record = state.server(server.config.name)
        wanted = release_of(facts.config) if release_of else record.current
        why = change_of(server, state, wanted).why if wanted else ("release: none",)
        current = state.releases.get(record.current) if record.current else None
        word = "none" if record.current is None else "good" if record.proven else "not proven"
        if record.current is not None and (current is None or not current.complete):
            word, why = "broken", (*why, "release: not complete on this host")
        before = record.before if record.proven else record.good
        servers.append(
            ServerStatus(
                facts.config.name,
                server.config.name,
                record.current,
                word,
                "running" if server.running else "not running",
                before.release if before else None,
                tuple(why) if server.running or not record.current else _with_process(why),
            )
        )
    lock = state.lock.describe() if state.lock else None
    return HostStatus(facts.config.name, tuple(servers), lock, unfinished(state, operator))


def _with_process(why: tuple[str, ...]) -> tuple[str, ...]:
    text = "process: not running"
    return why if text in why else (*why, text)


def unfinished(state: HostState, operator: Operator) -> str | None:
    """What a run without an end left behind, in words; None when there is none, or its holder is at work."""
    pending, lock = state.pending, state.lock
    if pending is None:
        return None
    in_time = lock is not None and lock.run == pending.run and lock.overdue_s <= 0
    if lock is not None and in_time and operator.gone(lock.pid, lock.boot) is not True:
        return None
    step = f"{pending.step} {pending.server or ''}".strip() or "its start"
    text = (
        f"{pending.command} of {pending.release} by {pending.by} ({pending.started_at}) has no end; "
        f"its last step was {step} ({'ended' if pending.ended else 'not known to have ended'})"
    )
    deadman = state.deadman
    if deadman is not None and deadman.run == pending.run:
        if deadman.state == "fired":
            return f"{text}; the host went back by itself: {deadman.outcome}"
        if deadman.state in ("armed", "firing"):
            return f"{text}; the host is about to go back by itself"
    return f"{text}; specctl deploy goes on from here, specctl rollback goes back"
