"""`specctl deploy`: put a distribution on hosts, prove it, or go back."""

from __future__ import annotations

import os
from pathlib import Path

import click

from specctl.cli.main import json_option, output_of
from specctl.cli.release_options import (
    canary_option,
    dist_option,
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
from specctl.release.makers import deploy_maker
from specctl.release.source import SourceFolder
from specctl.release.wiring import real_ports


@click.command()
@selection_options
@dist_option
@serial_option
@canary_option
@max_fail_option
@resume_option
@yes_option
@dry_run_option
@json_option
@click.pass_context
def deploy(
    ctx: click.Context,
    selection: Selection,
    dist: Path,
    serial: str | None,
    canary: int,
    max_fail: str,
    resume: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Deploy a distribution: install it beside what serves, switch, restart, and gate on the evidence.

    When a server does not prove itself, the host goes back to what served before (exit code 6). Hosts on
    which there is nothing to do are left alone.
    """
    output = output_of(ctx, as_json)
    chosen = selected(selection, output)
    source = SourceFolder(dist)
    record = LastRun.of("deploy", chosen.inventory.path, os.environ)
    hosts = record.unfinished(chosen.hosts) if resume else chosen.hosts
    version, ports = source.distribution.version, real_ports()
    command = Command(
        name="deploy",
        what=f"deploy {version}",
        output=output,
        hosts=hosts,
        make=deploy_maker(ports, source),
        ports=ports,
        fleet=Fleet(
            serial=parse_serial(serial) if serial else (),
            canary=canary,
            max_fail=parse_max_fail(max_fail, len(hosts)),
        ),
        yes=yes,
        dry_run=dry_run,
        record=record,
        more={"distribution": version},
    )
    ctx.exit(int(command.run()))
