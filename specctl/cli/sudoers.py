"""`specctl sudoers`: what a host's login user needs sudo for, as a sudoers file; touches no host."""

from __future__ import annotations

from dataclasses import asdict

import click

from specctl.cli.main import json_option, output_of
from specctl.cli.selection import Selection, selected, selection_options
from specctl.errors import UsageError
from specctl.service.sudoers import grant_for


@click.command()
@selection_options
@click.option("--setup", is_flag=True, help="Print the script with which root sets the host up, once.")
@json_option
@click.pass_context
def sudoers(ctx: click.Context, selection: Selection, setup: bool, as_json: bool) -> None:
    """Print the sudoers file that a host's login user needs; touches no host.

    It allows what specctl runs there with sudo and nothing else, and says where that is equal to root. Least
    is needed with `sudo: units`, nothing with systemd-user or supervisor below a folder of the user's own.
    """
    output = output_of(ctx, as_json)
    hosts = selected(selection, output).hosts
    grants = [grant_for(host) for host in hosts]
    if as_json:
        output.json({"hosts": [asdict(grant) for grant in grants]})
        return
    if len(grants) != 1:
        raise UsageError(
            f"a sudoers file is for one host, and {len(grants)} are selected",
            hint="pick one with --hosts NAME, or take all of them with --json",
        )
    grant = grants[0]
    if grant.user is None and grant.sudoers:
        output.note("the inventory does not name the login user: write it where USER stands")
    if setup and grant.setup is None:
        raise UsageError(f"{grant.host} needs no set-up by root: {grant.why}", code="no-setup")
    click.echo((grant.setup if setup else grant.sudoers) or f"# {grant.host}: {grant.why}\n", nl=False)
