"""How plans and results are shown: one table and the story of each failure, or one JSON document."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from specctl.cli.document import document
from specctl.cli.folding import FEW, alike, folded, span
from specctl.cli.output import Output
from specctl.errors import SpecctlError
from specctl.exits import ExitCode
from specctl.release.gate import summary
from specctl.release.plan import Plan, ServerChange
from specctl.release.result import HostResult, Outcome, ServerResult, overall
from specctl.release.words import counted

RESULT_COLUMNS = ("host", "server", "release", "result", "evidence", "seconds")
FOLDED_COLUMNS = ("hosts", "server", "release", "result", "evidence", "seconds", "which")
PLAN_COLUMNS = ("host", "server", "now", "then", "why")


def show_results(output: Output, command: str, results: Sequence[HostResult], **more: Any) -> ExitCode:
    """The end of a deploy or rollback; the exit code of the whole command."""
    code = overall(results)
    if output.as_json:
        errors = [(r.host, r.error) for r in results if r.error is not None]
        hosts = [r.as_dict() for r in results]
        output.json(document(code, errors, command=command, **more, hosts=hosts))
        return code
    many = len(results) > FEW
    for same in alike(results, _story if many else _host):
        _tell(output, same)
    rows = [row for result in results for row in _rows(result)]
    if not many:
        output.table(RESULT_COLUMNS, [(*row[:-1], span(row[-1:])) for row in rows])
    else:
        output.table(FOLDED_COLUMNS, _folded_rows(rows))
        output.line(f"{counted(len(results), 'host')}: {_counts(results)}")
    return code


def _host(result: HostResult) -> str:
    return result.host


def _story(result: HostResult) -> str:
    """What is told of a failure, without the host's name: the same on many hosts is told once."""
    error = result.error.as_dict() if result.error else {}
    text = repr((error, result.state, result.notes))
    return text.replace(result.host, "*")


def _tell(output: Output, same: Sequence[HostResult]) -> None:
    """The notes, the error and the state of hosts on which all of these are alike."""
    first, names = same[0], folded([r.host for r in same])
    for note in first.notes:
        output.note(f"{names}: {note}")
    if first.error is not None:
        output.error(first.error if len(same) == 1 else on_all(first.error, [r.host for r in same]))
    if first.state:
        output.note(f"{names}: {first.state}")


def on_all(error: SpecctlError, hosts: Sequence[str]) -> SpecctlError:
    """One error for several hosts that had the same."""
    rest = {k: v for k, v in error.context.items() if k != "host"}
    return SpecctlError(
        f"{error.message} (and {len(hosts) - 1} more like it)",
        code=error.code,
        context={"hosts": folded(hosts), **rest},
        hint=error.hint,
        exit_code=error.exit_code,
    )


def _folded_rows(rows: Sequence[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Rows that differ in host and seconds only as one: how many hosts, and at the end which."""
    return [
        (
            str(len(same)),
            *same[0][1:-1],
            span([row[-1] for row in same]),
            folded([row[0] for row in same]),
        )
        for same in alike(rows, lambda row: row[1:-1])
    ]


def _counts(results: Sequence[HostResult]) -> str:
    """`187 done, 10 unreachable, 3 failed`, the most first."""
    groups = alike([r.outcome.value for r in results], lambda word: word)
    return ", ".join(f"{len(same)} {same[0]}" for same in sorted(groups, key=len, reverse=True))


def _rows(result: HostResult) -> list[tuple[Any, ...]]:
    seconds = result.seconds
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
    """What would be done, host by host, step by step; of many hosts those with the same plan together."""
    many = len(plans) > FEW
    rows = [
        (plan.host, s.server, s.before or "-", s.after, "; ".join(s.why) or "nothing to do")
        for plan in plans
        for s in plan.servers
    ]
    if rows:
        groups = alike(rows, lambda row: row[1:] if many else row)
        output.table(PLAN_COLUMNS, [(folded([r[0] for r in same]), *same[0][1:]) for same in groups])
    for same in alike(plans, _steps if many else lambda plan: plan.host):
        names = folded([plan.host for plan in same])
        for note in same[0].notes:
            output.note(f"{names}: {note}")
        if same[0].changes:
            output.line(f"\n{names}:")
            for number, action in enumerate(same[0].actions, 1):
                output.line(f"  {number:2}. {action.describe()}")


def _steps(plan: Plan) -> str:
    """What is shown of a plan, without the host's name."""
    return repr(([a.describe() for a in plan.actions], plan.notes)).replace(plan.host, "*")


def show_errors(output: Output, errors: Mapping[str, SpecctlError]) -> None:
    """What kept hosts away; of many hosts those with the same error together."""
    for host, error in errors.items():
        error.context = {"host": host, **error.context}
    many = len(errors) > FEW
    told = alike(errors.items(), lambda e: repr(e[1].as_dict()).replace(e[0], "*") if many else e[0])
    for same in told:
        first = same[0][1]
        output.error(first if len(same) == 1 else on_all(first, [host for host, _ in same]))


def diff_of(change: ServerChange) -> str:
    """The unit before and after, as a unified diff; empty when it stays."""
    before = (change.unit_before or "").splitlines(keepends=True)
    after = change.unit_after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, f"{change.server} now", f"{change.server} then"))
