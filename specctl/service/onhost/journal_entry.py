"""Runs on the host, and here: one entry of `journalctl -o json`, whatever is in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

# journald's "Suppressed N messages from UNIT" (SD_MESSAGE_JOURNAL_DROPPED)
DROPPED_ID = "a596d6fe7bfa4994828e72309e95d61e"
TEXT_LIMIT = 8192  # bytes of one line's text that are kept


def message_bytes(value: Any) -> bytes:
    """The bytes of a MESSAGE field in any of journalctl's forms: text, byte values, a list of those, null."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, list):
        if value and all(type(v) is int and 0 <= v <= 255 for v in value):
            return bytes(value)
        return b"\n".join(message_bytes(v) for v in value)
    return b""


def parse_entry(line: bytes) -> dict[str, Any] | None:
    """One line of `journalctl -o json`; None when it is not an entry ("-- No entries --", a cut line)."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        entry = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def field(entry: dict[str, Any], name: str) -> str:
    """A field as text; "" when it is missing or is not text. Of repeated fields, the first."""
    value = entry.get(name)
    if isinstance(value, list) and value and isinstance(value[0], str):
        value = value[0]
    return value if isinstance(value, str) else ""


def number(text: str, default: int = 0) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else default


def as_line(entry: dict[str, Any]) -> dict[str, Any]:
    """The part of an entry that a LogLine needs."""
    data = message_bytes(entry.get("MESSAGE"))
    try:
        data.decode("utf-8")
        utf8 = True
    except UnicodeDecodeError:
        utf8 = False
    stamp = number(field(entry, "__REALTIME_TIMESTAMP"))
    return {
        "text": data[:TEXT_LIMIT].decode("utf-8", "replace"),
        "at": stamp / 1e6 if stamp else None,
        "invocation": field(entry, "_SYSTEMD_INVOCATION_ID"),
        "utf8": utf8,
        "cut": len(data) > TEXT_LIMIT,
    }


def belongs(entry: dict[str, Any], unit: str, user: bool) -> bool:
    """Whether a process of the unit wrote it (and not systemd about the unit)."""
    return field(entry, "_SYSTEMD_USER_UNIT" if user else "_SYSTEMD_UNIT") == unit


def dropped_lines(entry: dict[str, Any], unit: str, user: bool) -> int:
    """How many of the unit's lines journald says it threw away, in this entry."""
    if field(entry, "MESSAGE_ID") != DROPPED_ID or field(entry, "_COMM") not in ("", "systemd-journal"):
        return 0
    about = field(entry, "OBJECT_SYSTEMD_USER_UNIT" if user else "OBJECT_SYSTEMD_UNIT")
    text = message_bytes(entry.get("MESSAGE")).decode("utf-8", "replace")
    if about != unit and unit not in text and (about or not user):
        return 0
    return number(field(entry, "N_DROPPED")) or 1


def cursor_sequence(cursor: str) -> tuple[str, int] | None:
    """(sequence id, sequence number) of a journal cursor; None when it has none."""
    try:
        return cursor_field(cursor, "s"), int(cursor_field(cursor, "i"), 16)
    except ValueError:
        return None


def cursor_field(cursor: str, name: str) -> str:
    """One `name=value` part of a cursor; "" when it is missing."""
    parts = dict(p.split("=", 1) for p in cursor.split(";") if "=" in p)
    return parts.get(name, "")


def sequence_gaps(cursors: Iterable[str]) -> int:
    """How many sequence numbers are missing among all entries of each boot.

    journald counts over all its files; their sequence ids differ, so they are left aside.
    """
    numbers: dict[str, set[int]] = {}
    for cursor in cursors:
        found = cursor_sequence(cursor)
        if found is not None:
            numbers.setdefault(cursor_field(cursor, "b"), set()).add(found[1])
    return sum(max(seen) - min(seen) + 1 - len(seen) for seen in numbers.values())
