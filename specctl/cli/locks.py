"""`specctl unlock`: take away a lock whose holder is dead."""

from __future__ import annotations

import click

from specctl.cli.document import document, errors_of
from specctl.cli.main import json_option, output_of
from specctl.cli.selection import Selection, selected, selection_options
from specctl.config.model import HostConfig
from specctl.exits import ExitCode
from specctl.host.parallel import each
from specctl.release.engine import Engine, failed
from specctl.release.result import overall
from specctl.release.unlocking import Unlocked, unlock_host
from specctl.release.wiring import real_ports


@click.command()
@selection_options
@click.option("--force", is_flag=True, help="Also when the holder may be alive.")
@json_option
@click.pass_context
def unlock(ctx: click.Context, selection: Selection, force: bool, as_json: bool) -> None:
    """Remove the lock of hosts whose holder is dead.

    A lock counts as dead when its holder is overdue and nothing of its run is alive; a deploy takes such a
    lock over by itself. Any other one is only removed with --force (exit code 5 without it). A timer that its
    run armed on the host then acts: the host goes back to what worked.
    """
    output = output_of(ctx, as_json)
    engine = Engine(real_ports())

    def one(config: HostConfig) -> Unlocked:
        with engine.surveyor(config) as surveyor:
            return unlock_host(surveyor.host, config, engine.ports, force=force)

    outcomes = each(selected(selection, output).hosts, one)
    results = [failed(o.key.name, o.error) for o in outcomes if o.error is not None]
    code = overall(results) if results else ExitCode.OK
    found = [o.value for o in outcomes if o.value is not None]
    if as_json:
        output.json(document(code, errors_of(outcomes), hosts=[u.as_dict() for u in found]))
        ctx.exit(int(code))
    output.table(("host", "lock"), [(u.host, u.text) for u in found])
    for result in results:
        if result.error is not None:
            output.error(result.error)
    ctx.exit(int(code))
