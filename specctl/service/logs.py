"""From what the on-host log readers print to `LogSlice` and `LogLine`."""

from __future__ import annotations

import re
from typing import Any

from specctl.service.onhost import journal_entry
from specctl.service.protocol import LogLine, LogSlice

# SGLang prints all its arguments when it starts, its keys among them
_KEY = re.compile(
    r"""((?:admin_)?api_key["']?\s*[=:]\s*)(?!None\b|null\b)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,)}]+)"""
)


def without_keys(text: str) -> str:
    """The text with the values of API keys left out."""
    return _KEY.sub(r"\1***", text)


def as_log_line(raw: Any) -> LogLine:
    """One line of a reader's answer; odd types become empty text rather than an error."""
    raw = raw if isinstance(raw, dict) else {}
    at = raw.get("at")
    return LogLine(
        text=without_keys(str(raw.get("text", ""))),
        at=float(at) if isinstance(at, (int, float)) else None,
        invocation=str(raw.get("invocation", "")),
        utf8=raw.get("utf8") is not False,
        cut=raw.get("cut") is True,
    )


def as_log_slice(raw: Any, where: str) -> LogSlice:
    """A reader's answer."""
    if not isinstance(raw, dict):
        return LogSlice(
            lines=(), where=where, complete=False, dropped=None, reason="the reader gave no answer"
        )
    dropped = raw.get("dropped")
    reason = str(raw.get("reason", ""))
    if dropped:
        reason = "; ".join(p for p in (reason, f"the journal dropped {dropped} lines") if p)
    return LogSlice(
        lines=tuple(as_log_line(x) for x in raw.get("lines", ())),
        where=where,
        earlier=tuple(as_log_line(x) for x in raw.get("earlier", ())),
        tail=tuple(as_log_line(x) for x in raw.get("tail", ())),
        dropped=dropped if isinstance(dropped, int) else None,
        complete=raw.get("complete") is True,
        reason=reason,
        not_utf8=int(raw.get("not_utf8", 0)),
        seen=int(raw.get("own") or 0),
    )


def journal_line(data: bytes, unit: str, user: bool, *, after: str | None = None) -> LogLine | None:
    """One line of `journalctl -o json -f`; None when it is none of the unit's own, or the entry `after`."""
    entry = journal_entry.parse_entry(data)
    if entry is None and data.startswith(b"{"):
        return LogLine(text="(a line of more than 64 KiB was left out)", cut=True)
    if entry is None or not journal_entry.belongs(entry, unit, user):
        return None
    if after and journal_entry.field(entry, "__CURSOR") == after:
        return None
    return as_log_line(journal_entry.as_line(entry))
