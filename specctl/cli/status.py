"""`specctl status` and `specctl history`: what serves where, and what was done to get there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from specctl.cli.document import document, errors_of
from specctl.cli.folding import folded
from specctl.cli.main import json_option, output_of
from specctl.cli.output import Output
from specctl.cli.selection import Selection, selected, selection_options
from specctl.config.model import HostConfig
from specctl.exits import ExitCode
from specctl.host.parallel import Outcome, each
from specctl.release.engine import Engine, failed
from specctl.release.history import Entry, read_history
from specctl.release.makers import survey_only
from specctl.release.result import overall
from specctl.release.source import SourceFolder
from specctl.release.state import HostState
from specctl.release.status import HostStatus, status_of
from specctl.release.wiring import real_ports

STATUS_COLUMNS = ("host", "server", "release", "state", "process", "rollback to", "drift")
HISTORY_COLUMNS = ("when", "host", "command", "release", "by", "result", "detail")
RELEASE_COLUMNS = ("host", "release", "state", "current of", "good for")


@click.command()
@selection_options
@click.option(
    "--dist",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Also say where another distribution than this one serves.",
)
@json_option
@click.pass_context
def status(ctx: click.Context, selection: Selection, dist: Path | None, as_json: bool) -> None:
    """Show what each server runs, who holds locks, what a lost run left, and drift from the inventory.

    Changes nothing. Exit code 0: as the inventory says, 3: drift, 4: a host could not be reached.
    """
    output = output_of(ctx, as_json)
    hosts = selected(selection, output).hosts
    engine = Engine(real_ports())
    release_of = SourceFolder(dist).release_of if dist else None

    def look(config: HostConfig) -> HostStatus:
        with engine.surveyor(config) as surveyor:
            return status_of(survey_only(surveyor), release_of, engine.ports.operator)

    outcomes = each(hosts, look)
    found = [o.value for o in outcomes if o.value is not None]
    code = ExitCode.CHANGES if any(h.drifts for h in found) else ExitCode.OK
    code = _worse(code, outcomes)
    if as_json:
        output.json(document(code, errors_of(outcomes), hosts=[h.as_dict() for h in found]))
        ctx.exit(int(code))
    output.table(
        STATUS_COLUMNS,
        [
            (
                s.host,
                s.server,
                s.release or "-",
                s.state,
                s.process,
                s.previous or "-",
                "; ".join(s.drift) or "-",
            )
            for h in found
            for s in h.servers
        ],
    )
    for host in found:
        if host.lock:
            output.note(f"{host.host}: locked by {host.lock}")
        if host.unfinished:
            output.note(f"{host.host}: {host.unfinished}")
    _show_errors(output, outcomes)
    ctx.exit(int(code))


@click.command()
@selection_options
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, help="Runs for each host.")
@click.option("--releases", is_flag=True, help="The releases on each host instead of the runs.")
@json_option
@click.pass_context
def history(ctx: click.Context, selection: Selection, last: int, releases: bool, as_json: bool) -> None:
    """Show deploys, rollbacks and prunes of each host: when, by whom, and how they ended."""
    output = output_of(ctx, as_json)
    hosts = selected(selection, output).hosts
    engine = Engine(real_ports())

    def look(config: HostConfig) -> tuple[tuple[Entry, ...], HostState]:
        with engine.surveyor(config) as surveyor:
            entries = read_history(surveyor.host, config.root, sudo=config.sudo, last=last)
            return entries, surveyor.state()

    outcomes = each(hosts, look)
    code = _worse(ExitCode.OK, outcomes)
    if as_json:
        found = [_document(o.key.name, *o.value) for o in outcomes if o.value is not None]
        output.json(document(code, errors_of(outcomes), hosts=found))
        ctx.exit(int(code))
    told = {
        o.key.name: _release_rows(o.key.name, o.value[1]) if releases else _run_rows(o.key.name, o.value[0])
        for o in outcomes
        if o.value is not None
    }
    rows = [row for of_host in told.values() for row in of_host]
    if rows:
        output.table(RELEASE_COLUMNS if releases else HISTORY_COLUMNS, rows if releases else sorted(rows))
    nothing = folded([host for host, of_host in told.items() if not of_host])
    if nothing:
        output.note(f"{nothing}: no {'release' if releases else 'run'} yet; specctl deploy makes the first")
    _show_errors(output, outcomes)
    ctx.exit(int(code))


def _document(host: str, entries: tuple[Entry, ...], state: HostState) -> dict[str, Any]:
    releases = [r.__dict__ for r in state.releases.values()]
    return {"host": host, "runs": [e.__dict__ for e in entries], "releases": releases}


def _run_rows(host: str, entries: tuple[Entry, ...]) -> list[tuple[str, ...]]:
    return [(e.at, host, e.command, e.release or "-", e.by, e.result, e.detail) for e in entries]


def _release_rows(host: str, state: HostState) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for release in sorted(state.releases.values(), key=lambda r: (r.completed_at, r.id)):
        word = f"failed: {release.failed}" if release.failed else "complete" if release.complete else "half"
        current = [s.name for s in state.servers.values() if s.current == release.id]
        good = [s.name for s in state.servers.values() if any(g.release == release.id for g in s.goods)]
        rows.append((host, release.id, word, ", ".join(current) or "-", ", ".join(good) or "-"))
    return rows


def _worse(code: ExitCode, outcomes: Sequence[Outcome[HostConfig, Any]]) -> ExitCode:
    """The code when some hosts could not be asked."""
    kept_away = [failed(o.key.name, o.error) for o in outcomes if o.error is not None]
    return overall(kept_away) if kept_away else code


def _show_errors(output: Output, outcomes: Sequence[Outcome[HostConfig, Any]]) -> None:
    for outcome in outcomes:
        if outcome.error is not None:
            outcome.error.context = {"host": outcome.key.name, **outcome.error.context}
            output.error(outcome.error)
