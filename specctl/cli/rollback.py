"""`specctl rollback`: back to the release that worked before."""

from __future__ import annotations

import os

import click

from specctl.cli.main import json_option, output_of
from specctl.cli.release_options import (
    canary_option,
    dry_run_option,
    max_fail_option,
    resume_option,
    serial_option,
    yes_option,
)
from specctl.cli.release_run import Command
from specctl.cli.selection import Selection, selected, selection_options
from specctl.release.fleet import Fleet, parse_max_fail, parse_serial
from specctl.release.lastrun import LastRun
from specctl.release.makers import rollback_maker
from specctl.release.wiring import real_ports


@click.command()
@selection_options
@click.option(
    "--to", metavar="RELEASE", help="This release instead of the previous one; see specctl history."
)
@serial_option
@canary_option
@max_fail_option
@resume_option
@yes_option
@dry_run_option
@json_option
@click.pass_context
def rollback(
    ctx: click.Context,
    selection: Selection,
    to: str | None,
    serial: str | None,
    canary: int,
    max_fail: str,
    resume: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Roll back each server to its previous good release; it restarts, gates and proves as a deploy does.

    Another rollback goes one further back. A release that failed or is not complete is never chosen. Where
    the last deploy did not finish, this goes back to what worked before it.
    """
    output = output_of(ctx, as_json)
    chosen = selected(selection, output)
    record = LastRun.of("rollback", chosen.inventory.path, os.environ)
    hosts = record.unfinished(chosen.hosts) if resume else chosen.hosts
    ports = real_ports()
    command = Command(
        name="rollback",
        what=f"rollback to {to or 'the previous release'}",
        output=output,
        hosts=hosts,
        make=rollback_maker(ports, to),
        ports=ports,
        fleet=Fleet(
            serial=parse_serial(serial) if serial else (),
            canary=canary,
            max_fail=parse_max_fail(max_fail, len(hosts)),
        ),
        yes=yes,
        dry_run=dry_run,
        record=record,
    )
    ctx.exit(int(command.run()))
