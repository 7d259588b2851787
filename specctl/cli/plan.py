"""`specctl plan` and `specctl diff`: what a deploy would do, from the same object that deploy carries out."""

from __future__ import annotations

from pathlib import Path

import click

from specctl.cli.main import json_option, output_of
from specctl.cli.release_options import dist_option
from specctl.cli.release_run import gather_plans, show_dry_run
from specctl.cli.release_view import diff_of
from specctl.cli.selection import Selection, selected, selection_options
from specctl.release.engine import Engine
from specctl.release.makers import deploy_maker
from specctl.release.source import SourceFolder
from specctl.release.wiring import real_ports


@click.command()
@selection_options
@dist_option
@json_option
@click.pass_context
def plan(ctx: click.Context, selection: Selection, dist: Path, as_json: bool) -> None:
    """Show what a deploy would do, step by step; changes nothing and takes no lock.

    Exit code 0: nothing to do, 3: there are changes.
    """
    output = output_of(ctx, as_json)
    hosts = selected(selection, output).hosts
    source = SourceFolder(dist)
    engine = Engine(real_ports())
    plans, errors = gather_plans(engine, hosts, deploy_maker(engine.ports, source))
    more = {"distribution": source.distribution.version}
    ctx.exit(int(show_dry_run(output, "plan", list(plans.values()), errors, **more)))


@click.command()
@selection_options
@dist_option
@json_option
@click.pass_context
def diff(ctx: click.Context, selection: Selection, dist: Path, as_json: bool) -> None:
    """Show what a deploy would change on each server: release, overlaid files (+ added, - dropped, ~ changed)
    and the unit, line by line.

    Exit code 0: no difference, 3: there is one.
    """
    output = output_of(ctx, as_json)
    hosts = selected(selection, output).hosts
    source = SourceFolder(dist)
    engine = Engine(real_ports())
    plans, errors = gather_plans(engine, hosts, deploy_maker(engine.ports, source))
    if as_json or errors:
        ctx.exit(int(show_dry_run(output, "diff", list(plans.values()), errors)))
    for found in plans.values():
        for change in found.servers:
            if not change.changed:
                continue
            output.line(f"{found.host} {change.server}: {'; '.join(change.why)}")
            for line in (*change.files, *diff_of(change).splitlines()):
                output.line(f"  {line}")
    ctx.exit(3 if any(p.changes for p in plans.values()) else 0)
