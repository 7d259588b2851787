"""What was done on a host, by whom, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specctl.host.protocol import Host
from specctl.release.journal import parse
from specctl.release.layout import Layout

_LIMIT = 4 << 20  # bytes of history that are read; the host keeps fewer


@dataclass(frozen=True)
class Entry:
    """One run on one host."""

    at: str  # ISO 8601, UTC
    run: str
    command: str
    release: str
    by: str
    result: str
    detail: str = ""
    seconds: float | None = None
    servers: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Entry:
        """From one line of the history; what is missing is empty."""
        words = {
            k: str(raw.get(k) or "") for k in ("at", "run", "command", "release", "by", "result", "detail")
        }
        seconds, servers = raw.get("seconds"), raw.get("servers")
        return cls(
            **words,
            seconds=float(seconds) if isinstance(seconds, (int, float)) and abs(seconds) < 1e12 else None,
            servers=tuple(str(s) for s in servers) if isinstance(servers, list) else (),
        )


def read_history(host: Host, root: str, *, sudo: bool, last: int | None = None) -> tuple[Entry, ...]:
    """Oldest first; `last`: only so many of the newest."""
    data = host.read(Layout(root).history, limit=_LIMIT, sudo=sudo) or b""
    entries = tuple(Entry.from_json(raw) for raw in parse(data))
    return entries if last is None else entries[-last:]
