"""How evidence is shown: a table for people, a document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from specctl.cli.output import Output
from specctl.evidence.model import Report, Verdict

NARROW = 70  # columns of a terminal, below which little is left for what was seen
COLUMNS = ("", "evidence", "", "")


def show_report(report: Report, output: Output) -> None:
    """What was seen, expected and where for each kind; what to do where it did not pass."""
    rows: list[tuple[str, str, str, str]] = []
    for e in report.evidence:
        code = "" if e.verdict is Verdict.PASS else f"[{e.code}]"
        rows.append((e.verdict.value, e.kind.value, "seen", e.seen))
        rows.append(("", code, "expected", e.expected))
        rows.append(("", "", "where", e.where))
        if e.hint and e.verdict is not Verdict.PASS:
            rows.append(("", "", "to do", e.hint))
    if output.out.width >= NARROW:
        output.table(COLUMNS, rows, title=headline(report))
        return
    output.line(headline(report))
    for verdict, kind, label, text in rows:
        if verdict or kind:
            output.line(f"{verdict} {kind}".strip())
        output.line(f"  {label}: {text}")


def headline(report: Report) -> str:
    """`h1 main, release 0.5.9+specctl.1-1a2b: proven (5 of 5)`."""
    counts = Counter(e.verdict for e in report.evidence)
    share = f"{counts[Verdict.PASS]} of {len(report.evidence)}"
    release = f", release {report.release}" if report.release else ""
    return f"{report.host} {report.server}{release}: {'proven' if report.ok else 'not proven'} ({share})"


def report_document(report: Report) -> dict[str, object]:
    """The JSON shape of a report."""
    return {**asdict(report), "ok": report.ok}


def show_reports(reports: Iterable[Report], output: Output) -> None:
    for report in reports:
        show_report(report, output)
