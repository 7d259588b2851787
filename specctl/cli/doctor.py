"""`specctl doctor`: is a host ready for a deploy, and would its servers start? Changes nothing."""

from __future__ import annotations

from collections import Counter
from functools import cache

import click
from rich.progress import Progress, SpinnerColumn, TextColumn

from specctl.base.lock import shipped_lock
from specctl.base.model import Base
from specctl.base.store import BaseStore
from specctl.cli.document import document
from specctl.cli.main import json_option, output_of
from specctl.cli.output import Output
from specctl.cli.selection import Selection, selected, selection_options
from specctl.config.model import HostConfig, Target
from specctl.doctor.examine import examine
from specctl.doctor.model import HostReport, Verdict
from specctl.doctor.needs import Needs, needs_of
from specctl.exits import ExitCode
from specctl.host.connect import connect
from specctl.host.parallel import each
from specctl.host.protocol import Host


@click.command()
@selection_options
@json_option
@click.pass_context
def doctor(ctx: click.Context, selection: Selection, as_json: bool) -> None:
    """Look at hosts and servers before a deploy; changes nothing.

    Connection, host keys, clock, disks, Python, drivers, GPUs, supervisor, what a serving environment really
    imports, and the arguments of each server against known traps. Exit code 0: nothing would fail, 1:
    something would, 4: a host cannot be reached.
    """
    output = output_of(ctx, as_json)
    hosts = selected(selection, output).hosts
    store = BaseStore.discover()
    bases = {config.base: store.get(config.base) for config in hosts}
    reports = _examine_all(hosts, bases, output)
    code = _exit_code(reports)
    if as_json:
        errors = [(report.host, report.error) for report in reports if report.error is not None]
        output.json(document(code, errors, hosts=[report.as_dict() for report in reports]))
    else:
        for report in reports:
            _show(report, output)
    ctx.exit(int(code))


def _examine_all(hosts: tuple[HostConfig, ...], bases: dict[str, Base], output: Output) -> list[HostReport]:
    @cache
    def needs(base: str, target: Target) -> Needs:
        lock = shipped_lock(bases[base], target.value) if target.value in bases[base].locks else None
        return needs_of(bases[base], lock, cuda=target is Target.CUDA)

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        console=output.err,
        transient=True,
        disable=not output.err.is_terminal,
    )
    opened: list[Host] = []
    with bar:
        rows = {config.name: bar.add_task(f"{config.name}: connecting", total=1) for config in hosts}

        def one(config: HostConfig) -> HostReport:
            row = rows[config.name]
            host = connect(config)
            opened.append(host)
            try:
                return examine(
                    host,
                    config,
                    bases[config.base],
                    needs(config.base, config.target),
                    say=lambda step: bar.update(row, description=f"{config.name}: {step}"),
                )
            finally:
                bar.update(row, completed=1, visible=False)

        try:
            outcomes = each(hosts, one)
        finally:
            for host in opened:
                host.close()
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes if outcome.value is not None]


def _show(report: HostReport, output: Output) -> None:
    counts = Counter(check.verdict for check in report.checks)
    summary = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    rows = []
    for check in report.checks:
        name = f"{check.server}: {check.name}" if check.server else check.name
        rows.append((check.verdict.value, name, check.seen))
        if check.hint and check.verdict is not Verdict.OK:
            rows.append(("", "", f"-> {check.hint}"))
    output.table(("", "check", "seen"), rows, title=f"{report.host}: {summary}")


def _exit_code(reports: list[HostReport]) -> ExitCode:
    if any(not report.reachable for report in reports):
        return ExitCode.UNREACHABLE
    return ExitCode.OK if all(report.ok for report in reports) else ExitCode.FAILED
