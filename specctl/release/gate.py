"""The gate: a restarted server has to prove itself, and stay proven for the hold window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from specctl.evidence.model import Expectation, Report, Verdict
from specctl.service.protocol import Cursor, Service


def expectation_as_dict(expectation: Expectation) -> dict[str, Any]:
    """An expectation as JSON, as a plan shows it and a good state keeps it."""
    return asdict(expectation)


def as_expectation(raw: Mapping[str, Any]) -> Expectation:
    """The expectation that `expectation_as_dict` described; unknown fields are left out."""
    known = {f.name for f in fields(Expectation)}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items() if k in known}
    return Expectation(**values)


def failures(report: Report) -> list[str]:
    """What did not pass, one line each: `marker [marker-absent]: expected ..., seen ...`."""
    return [
        f"{e.kind.value} [{e.code}]: expected {e.expected}, seen {e.seen}"
        for e in report.evidence
        if e.verdict is not Verdict.PASS
    ]


def summary(report: Report | None) -> str:
    """Evidence in a few words: `6 of 6`, or what failed."""
    if report is None:
        return ""
    good = sum(e.verdict is Verdict.PASS for e in report.evidence)
    bad = [e.code for e in report.evidence if e.verdict is not Verdict.PASS]
    return f"{good} of {len(report.evidence)}" + (f", not: {', '.join(bad)}" if bad else "")


def log_tail(service: Service, cursor: Cursor, lines: int = 20) -> str:
    """The end of a server's log since a restart: the cause is nearly always there."""
    found = service.lines_since(cursor, match=("\0",), tail=lines)
    return "\n".join(line.text for line in found.tail) or f"(no lines in {found.where})"
