"""`specctl threshold get|set`: the thresholds of running servers, read and changed while they serve."""

from __future__ import annotations

import os
from typing import Any

import click

from specctl.cli.document import document, errors_of
from specctl.cli.main import json_option, output_of
from specctl.cli.output import Output
from specctl.cli.selection import Selection, of_server, selected, selection_options
from specctl.cli.servers import Say, exit_code, on_hosts
from specctl.config.model import HostConfig
from specctl.exits import ExitCode
from specctl.host.protocol import Host
from specctl.service.factory import service_for
from specctl.tune.errors import TuneError
from specctl.tune.inventory_edit import Edit, edit_threshold, inventory_files
from specctl.tune.rollout import Changed, Rollout, can_restart
from specctl.tune.threshold import Threshold, read_threshold
from specctl.tune.values import Values, check

COLUMNS = ("host", "server", "now", "live", "next start", "inventory", "last live change")


@click.group()
def threshold() -> None:
    """Read and change when servers stop speculating, while they serve."""


@threshold.command("get")
@click.argument("server", required=False)
@selection_options
@json_option
@click.pass_context
def get(ctx: click.Context, server: str | None, selection: Selection, as_json: bool) -> None:
    """Show thresholds: live, at the next start, and in the inventory; and who changed them last.

    Exit code 0: all agree, 3: they differ somewhere, 1: a server has no switch, 4: a host cannot be reached.
    """
    output = output_of(ctx, as_json)
    hosts = selected(of_server(selection, server), output).hosts

    def one(host: Host, config: HostConfig, say: Say) -> list[Threshold]:
        say("looking")
        return [read_threshold(host, config, s, service_for(host, config, s)) for s in config.servers]

    outcomes = on_hosts(hosts, one, output)
    found = [t for o in outcomes for t in o.value or ()]
    errors = errors_of(outcomes)
    code = exit_code([e for _, e in errors], ok=all(t.live for t in found))
    if code is ExitCode.OK and any(not _agree(t) for t in found):
        code = ExitCode.CHANGES
    if as_json:
        output.json(document(code, errors, servers=[t.as_dict() for t in found]))
    else:
        output.table(COLUMNS, [_row(t) for t in found])
        for t in found:
            for note in t.notes:
                output.note(f"{t.host} {t.server}: {note}")
        for _, error in errors:
            output.error(error)
    ctx.exit(int(code))


@threshold.command("set")
@click.argument("server")
@click.argument("n", type=click.IntRange(min=0))
@click.option(
    "--resume",
    type=click.IntRange(min=0),
    metavar="M",
    help="On again at M or fewer [default: a little below N].",
)
@click.option(
    "--dwell",
    type=click.IntRange(min=1),
    metavar="K",
    help="After K decode steps in a row [default: as it is].",
)
@click.option(
    "--restart",
    is_flag=True,
    help="Restart a server that does not take it while it serves; if that fails, it runs as before again.",
)
@click.option("--save", is_flag=True, help="Also write it into the inventory, after showing the difference.")
@selection_options
@json_option
@click.pass_context
def set_(
    ctx: click.Context,
    server: str,
    n: int,
    resume: int | None,
    dwell: int | None,
    restart: bool,
    save: bool,
    selection: Selection,
    as_json: bool,
) -> None:
    """Change the threshold of SERVER to N while it serves: speculation is off above N requests at once.

    All ranks change at the same step. The unit on the host is changed with it, so a restart keeps it; the
    inventory only with --save, and the next deploy puts there what the inventory says. 0 switches
    speculation off altogether. The change is in `specctl history`.
    """
    output = output_of(ctx, as_json)
    wanted = Values(n, resume, dwell)
    check(wanted, None)
    chosen = selected(of_server(selection, server), output)

    def one(host: Host, config: HostConfig, say: Say) -> list[Changed]:
        say(f"{server}: {wanted}")
        rollouts = [Rollout(host, config, s, service_for(host, config, s), say) for s in config.servers]
        return [change(rollout, wanted, restart=restart) for rollout in rollouts]

    outcomes = on_hosts(chosen.hosts, one, output)
    done = [c for o in outcomes for c in o.value or ()]
    errors = errors_of(outcomes)
    code = exit_code([e for _, e in errors], ok=all(c.kept for c in done), done=bool(done))
    edits = save_all(chosen.inventory.path, done, output) if save and done and not errors else []
    if as_json:
        output.json(document(code, errors, **_rows(done, edits)))
    else:
        for c in done:
            output.line(f"{c.host} {c.server}: {c.before or 'no threshold'} -> {c.now}, {c.words}")
        if done and not save:
            output.note(
                "the inventory was left alone: --save writes it there too, or the next deploy undoes it"
            )
        for _, error in errors:
            output.error(error)
    ctx.exit(int(code))


def change(rollout: Rollout, wanted: Values, *, restart: bool) -> Changed:
    """Live; by a restart where the server does not take it and one is allowed."""
    try:
        return rollout.live(wanted)
    except TuneError as exc:
        if not can_restart(exc):
            raise
        if not restart:
            exc.hint = f"{exc.hint or 'nothing was changed'}; --restart starts it anew with {wanted}"
            raise
        rollout.progress(f"{exc.message}; restarting")
    return rollout.restart(wanted)


def save_all(path: Any, done: list[Changed], output: Output) -> list[Edit]:
    """Write every change into the inventory, one after the other, each shown as a diff on stderr."""
    edits = []
    for c in done:
        edit = edit_threshold(inventory_files(path), c.host, c.server, c.now, environ=os.environ)
        if edit is None:
            continue
        output.note(edit.diff.rstrip())
        if edit.also:
            output.note(f"the same lines are for {', '.join(edit.also)}: their next deploy changes too")
        edit.write()
        edits.append(edit)
    return edits


def _agree(t: Threshold) -> bool:
    return not t.live or (
        t.inventory is not None
        and t.inventory.agrees(t.live)
        and t.after_restart is not None
        and t.after_restart.agrees(t.live)
    )


def _row(t: Threshold) -> tuple[str, ...]:
    live = str(t.live) if t.live else t.error or "-"
    return (
        t.host,
        t.server,
        t.state or "-",
        live,
        str(t.after_restart or "-"),
        str(t.inventory or "-"),
        t.changed or "-",
    )


def _rows(done: list[Changed], edits: list[Edit]) -> dict[str, Any]:
    return {
        "servers": [
            {
                "host": c.host,
                "server": c.server,
                "before": c.before.as_dict() if c.before else None,
                "now": c.now.as_dict(),
                "how": "live" if c.live else "restart",
                "kept": c.kept,
                "why_not": c.why or None,
            }
            for c in done
        ],
        "inventory": [{"file": str(e.path), "diff": e.diff, "also": list(e.also)} for e in edits],
    }
