"""The commands of systemd and its journal, and how `systemctl show` is read. Pure."""

from __future__ import annotations

import calendar
import time
from collections.abc import Sequence

from specctl.service.protocol import ServiceState

PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "MainPID",
    "InvocationID",
    "NRestarts",
    "ActiveEnterTimestamp",
    "ControlGroup",
    "Result",
)


def systemctl(*words: str, user: bool) -> tuple[str, ...]:
    return ("systemctl", *(("--user",) if user else ()), "--no-pager", "--no-ask-password", *words)


def show_argv(unit: str, *, user: bool) -> tuple[str, ...]:
    return systemctl("show", "--property", ",".join(PROPERTIES), "--", unit, user=user)


def follow_argv(
    unit: str,
    *,
    user: bool,
    uid: int,
    cursor: str | None,
    history: int,
    journalctl: Sequence[str] = ("journalctl",),
) -> tuple[str, ...]:
    """Follow one unit's own lines as JSON, from a cursor on (its own entry included), or the last `history`.

    Not `--after-cursor`: with matches it drops the first entry when the cursor's own one does not match.
    """
    since = ("--cursor", cursor) if cursor else ("-n", str(history))
    own = (f"_SYSTEMD_USER_UNIT={unit}", f"_UID={uid}") if user else (f"_SYSTEMD_UNIT={unit}",)
    return (*journalctl, "--no-pager", "-a", "-o", "json", "-f", *since, *own)


def last_cursor_argv(journalctl: Sequence[str] = ("journalctl",)) -> tuple[str, ...]:
    """The newest entry of the whole journal, for its cursor."""
    return (*journalctl, "--no-pager", "-n", "1", "-o", "json", "--output-fields=_PID")


def parse_show(unit: str, text: str) -> ServiceState:
    """`systemctl show` as a state; what is missing or odd becomes "unknown" or nothing."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    restarts = values.get("NRestarts", "")
    return ServiceState(
        unit=unit,
        exists=values.get("LoadState") == "loaded",
        active=values.get("ActiveState") or "unknown",
        sub=values.get("SubState") or "",
        main_pid=_number(values.get("MainPID", "")),
        invocation=values.get("InvocationID", "").strip(),
        restarts=_number(restarts) if restarts.isdigit() else None,
        since=parse_timestamp(values.get("ActiveEnterTimestamp", "")),
        cgroup=values.get("ControlGroup") or None,
        result=values.get("Result") or "",
    )


def parse_timestamp(text: str) -> float | None:
    """systemd's `Sun 2026-11-29 15:00:00 UTC` (asked for with TZ=UTC) as seconds since the epoch."""
    try:
        return float(calendar.timegm(time.strptime(text.split(" ", 1)[1], "%Y-%m-%d %H:%M:%S UTC")))
    except (IndexError, ValueError):
        return None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
