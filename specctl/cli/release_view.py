"""How plans and results are shown: one table and the story of each failure, or one JSON document."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from specctl.cli.output import Output
from specctl.exits import ExitCode
from specctl.release.gate import summary
from specctl.release.plan import Plan, ServerChange
from specctl.release.result import HostResult, Outcome, ServerResult, overall

RESULT_COLUMNS = ("host", "server", "release", "result", "evidence", "seconds")
PLAN_COLUMNS = ("host", "server", "now", "then", "why")


def show_results(output: Output, command: str, results: Sequence[HostResult], **more: Any) -> ExitCode:
    """The end of a deploy or rollback; the exit code of the whole command."""
    code = overall(results)
    if output.as_json:
        document = {
            "command": command,
            **more,
            "hosts": [r.as_dict() for r in results],
            "exit_code": int(code),
        }
        output.json(document)
        return code
    for result in results:
        for note in result.notes:
            output.note(f"{result.host}: {note}")
        if result.error is not None:
            output.error(result.error)
        if result.state:
            output.note(f"{result.host}: {result.state}")
    output.table(RESULT_COLUMNS, [row for result in results for row in _rows(result)])
    return code


def _rows(result: HostResult) -> list[tuple[str, ...]]:
    seconds = f"{result.seconds:.1f}"
    if not result.servers:
        return [(result.host, "-", "-", result.outcome.value, "", seconds)]
    return [
        (result.host, s.server, s.release or "-", _word(result, s.changed), _evidence(result, s), seconds)
        for s in result.servers
    ]


def _evidence(result: HostResult, server: ServerResult) -> str:
    """What was seen; where it did not come to that, what stopped it."""
    if (
        server.report is None
        and result.error is not None
        and result.error.context.get("server") == server.server
    ):
        return result.error.code
    return summary(server.report)


def _word(result: HostResult, changed: bool) -> str:
    return "unchanged" if result.outcome is Outcome.DONE and not changed else result.outcome.value


def show_plans(output: Output, plans: Sequence[Plan]) -> None:
    """What would be done, host by host, step by step."""
    rows = [
        (plan.host, s.server, s.before or "-", s.after, "; ".join(s.why) or "nothing to do")
        for plan in plans
        for s in plan.servers
    ]
    if rows:
        output.table(PLAN_COLUMNS, rows)
    for plan in plans:
        for note in plan.notes:
            output.note(f"{plan.host}: {note}")
        if plan.changes:
            output.line(f"\n{plan.host}:")
            for number, action in enumerate(plan.actions, 1):
                output.line(f"  {number:2}. {action.describe()}")


def diff_of(change: ServerChange) -> str:
    """The unit before and after, as a unified diff; empty when it stays."""
    before = (change.unit_before or "").splitlines(keepends=True)
    after = change.unit_after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, f"{change.server} now", f"{change.server} then"))
