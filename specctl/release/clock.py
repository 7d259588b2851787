"""Time and names, handed in so that tests need no waiting."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """What the release engine needs of time."""

    def now(self) -> datetime:
        """The time of day, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def stamp(clock: Clock) -> str:
    """ISO 8601 in UTC, whole seconds, as journals and records carry it."""
    return clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Operator:
    """Who runs specctl, and where."""

    who: str
    where: str
    pid: int
    boot: str  # boot id of this machine; with it a process id means something to another specctl here

    @classmethod
    def here(cls) -> Operator:
        try:
            who = os.environ.get("SUDO_USER") or getpass.getuser()
        except (KeyError, OSError):  # a user id without a name
            who = str(os.getuid())
        return cls(who=who, where=socket.gethostname(), pid=os.getpid(), boot=_boot_id())

    @property
    def name(self) -> str:
        return f"{self.who}@{self.where}"

    def gone(self, pid: int, boot: str) -> bool | None:
        """Whether that process of this machine has ended; None when it was on another machine or boot."""
        if not boot or boot != self.boot or pid <= 0:
            return None
        return not Path(f"/proc/{pid}").exists()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def new_run_id(clock: Clock) -> str:
    """Sortable by time, unique by chance: 20260102T030405-1a2b3c."""
    return f"{clock.now():%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
