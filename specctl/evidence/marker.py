"""Evidence 4: the overlay's line in the log of this very invocation. Parsing and judging, both pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from specctl.evidence.model import Evidence, Expectation, Kind, Marker, Verdict
from specctl.service.protocol import LogLine, LogSlice

MARKER_TEXT = "Dynamic speculation disable enabled"
_FIELD = re.compile(r"([a-z_]+)=([^\s,;]+)")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NUMBERS = ("threshold", "resume", "resume_steps", "tp_rank", "tp_size")


def parse_marker(text: str) -> Marker | None:
    """The marker in one log line; None when there is none, or when a field is missing or is no number.

    Fields may come in any order and others may stand between them; what stands before the marker's text
    (time, rank, colours) does not matter.
    """
    _, found, rest = _ANSI.sub("", text).partition(MARKER_TEXT + ":")
    if not found:
        return None
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(rest):
        fields.setdefault(name, value)
    try:
        numbers = {name: int(fields[name]) for name in _NUMBERS}
        return Marker(worker=fields["worker"], draft_sync=fields["draft_sync"], raw=text, **numbers)
    except (KeyError, ValueError):
        return None


def markers(lines: Sequence[LogLine]) -> dict[int, Marker]:
    """Tensor-parallel rank -> its last marker."""
    found = [marker for marker in (parse_marker(line.text) for line in lines) if marker]
    return {marker.tp_rank: marker for marker in found}


def judge_marker(expectation: Expectation, log: LogSlice, *, base: str = "") -> Evidence:
    """What the log says about the marker.

    Args:
        expectation: what the plan says; without a threshold or a worker no marker may be there.
        log: lines after the cursor that contain `MARKER_TEXT`, of this invocation (`lines`) or not
            (`earlier`).
        base: the base's version, named where the marker is absent.
    """
    found = markers(log.lines)
    wanted = expectation.threshold is not None and expectation.worker is not None
    expected = (
        _expected(expectation) if wanted else "no marker: no threshold, or no speculation, is configured"
    )

    def verdict(verdict: Verdict, code: str, seen: str, hint: str | None = None) -> Evidence:
        return Evidence(Kind.MARKER, verdict, code, expected, seen, log.where, hint)

    if not wanted:
        if log.lines:
            seen = log.lines[-1].text.strip()
            return verdict(
                Verdict.FAIL, "marker-unexpected", seen, "deploy what the inventory says, or change it"
            )
        return verdict(Verdict.PASS, "marker-not-expected", "no marker")
    if not found:
        return _without_marker(log, base, expected)
    workers = sorted({m.worker for m in found.values()})
    if workers != [expectation.worker]:
        return verdict(
            Verdict.FAIL,
            "marker-wrong-worker",
            f"the marker comes from {' and '.join(workers)}",
            "the server's arguments select another worker class than planned: specctl route",
        )
    wrong = [
        f"rank {rank}: {problem}"
        for rank, m in sorted(found.items())
        for problem in _differences(expectation, m)
    ]
    if wrong:
        hint = "the running server was started with other values: restart it, or deploy again"
        return verdict(Verdict.FAIL, "marker-wrong-values", "; ".join(wrong), hint)
    missing = [rank for rank in expectation.ranks if rank not in found]
    if missing:
        seen = f"markers of ranks {_ranks(found)}; none of {_ranks(missing)}"
        return verdict(
            Verdict.FAIL, "marker-missing-rank", seen, "look at those ranks in the log: specctl logs"
        )
    seen = f"ranks {_ranks(expectation.ranks)}: {found[expectation.ranks[0]].raw.strip()}"
    if log.not_utf8:
        note = f"{seen} ({log.not_utf8} log lines are not UTF-8; they do not hide it)"
        return verdict(Verdict.PASS, "log-not-utf8", note)
    return verdict(Verdict.PASS, "marker-present", seen)


def _without_marker(log: LogSlice, base: str, expected: str) -> Evidence:
    """Nothing usable in this invocation: say which of the reasons it is."""

    def verdict(verdict: Verdict, code: str, seen: str, hint: str) -> Evidence:
        return Evidence(Kind.MARKER, verdict, code, expected, seen, log.where, hint)

    if log.lines:
        return verdict(
            Verdict.FAIL,
            "marker-unreadable",
            f"a line with the marker's text but without its fields: {log.lines[-1].text.strip()[:300]}",
            "the distribution on the host does not match this specctl: build and deploy again",
        )
    if log.dropped or log.dropped is None:
        return verdict(
            Verdict.UNKNOWN,
            "log-dropped",
            f"no marker, and lines are missing: {log.reason or 'the log cannot tell how many'}",
            "restart the server (specctl restart) and verify again; check the journal's disk and limits",
        )
    if not log.complete:
        return verdict(
            Verdict.UNKNOWN,
            "log-incomplete",
            f"no marker, and the log could not be read in full: {log.reason}",
            "let the login user read the journal (group systemd-journal, or sudo: true), or restart",
        )
    if not log.seen:
        return verdict(
            Verdict.UNKNOWN,
            "log-empty",
            "this invocation has not one line in the log",
            "see where the unit's output goes: specctl logs, systemctl cat",
        )
    if any(MARKER_TEXT in line.text for line in log.earlier):
        last = log.earlier[-1]
        whose = f" of invocation {last.invocation}" if last.invocation else ""
        return verdict(
            Verdict.FAIL,
            "marker-stale",
            f"only an old marker{whose}, from before this start: {last.text.strip()[:300]}",
            "the process that runs now has not enabled it: look at the route, then restart",
        )
    bytes_note = f" ({log.not_utf8} of them not UTF-8)" if log.not_utf8 else ""
    return verdict(
        Verdict.FAIL,
        "marker-absent",
        f"none of {log.seen} lines{bytes_note} contains '{MARKER_TEXT}'"
        + (f" (base {base})" if base else ""),
        "the code that prints it did not run: compare the route and install evidence",
    )


def _expected(e: Expectation) -> str:
    values = {
        "worker": e.worker,
        "threshold": e.threshold,
        "resume": e.resume,
        "resume_steps": e.resume_steps,
        "draft_sync": e.draft_sync,
    }
    text = " ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    return f"'{MARKER_TEXT}: {text}' of ranks {_ranks(e.ranks)}, after the restart"


def _differences(e: Expectation, marker: Marker) -> list[str]:
    """Every planned value that the marker contradicts."""
    pairs = (
        ("threshold", e.threshold, marker.threshold),
        ("resume", e.resume, marker.resume),
        ("resume_steps", e.resume_steps, marker.resume_steps),
        ("draft_sync", e.draft_sync, marker.draft_sync),
        ("tp_size", e.tp_size, marker.tp_size),
    )
    return [f"{name}={seen}, expected {wanted}" for name, wanted, seen in pairs if wanted not in (None, seen)]


def _ranks(ranks: Sequence[int] | dict[int, Marker]) -> str:
    return ", ".join(str(rank) for rank in sorted(ranks))
