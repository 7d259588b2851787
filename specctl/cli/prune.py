"""`specctl prune`: remove releases that nothing needs."""

from __future__ import annotations

import click

from specctl.cli.main import json_option, output_of
from specctl.cli.release_options import dry_run_option, yes_option
from specctl.cli.release_run import Command
from specctl.cli.selection import Selection, selected, selection_options
from specctl.release.makers import prune_maker
from specctl.release.wiring import real_ports


@click.command()
@selection_options
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Good releases to keep besides those that are needed [default: keep_releases of the inventory].",
)
@yes_option
@dry_run_option
@json_option
@click.pass_context
def prune(
    ctx: click.Context, selection: Selection, keep: int | None, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove old releases, and the packages that only they needed.

    Never what a server runs, its last good release or the one before. A deploy prunes as well.
    """
    output = output_of(ctx, as_json)
    command = Command(
        name="prune",
        what="prune",
        output=output,
        hosts=selected(selection, output).hosts,
        make=prune_maker(keep),
        ports=real_ports(),
        yes=yes,
        dry_run=dry_run,
    )
    ctx.exit(int(command.run()))
