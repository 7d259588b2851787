"""`specctl verify`: the evidence that the switch took effect, for each server."""

from __future__ import annotations

from pathlib import Path

import click

from specctl.build.distribution import Distribution
from specctl.cli.document import document, errors_of
from specctl.cli.evidence_view import report_document, show_report
from specctl.cli.main import json_option, output_of
from specctl.cli.selection import Selection, selected, selection_options
from specctl.cli.servers import Say, exit_code, on_hosts
from specctl.config.model import HostConfig, ServerConfig
from specctl.errors import SpecctlError, let_go
from specctl.evidence.model import Report
from specctl.evidence.verify import verify_server
from specctl.host.errors import HostTimeout, Unreachable
from specctl.host.protocol import Host
from specctl.service.factory import service_for


@click.command()
@selection_options
@click.option(
    "--exercise",
    is_flag=True,
    help="Also put load past the threshold on it, by SGLang's own serving benchmark from the release, or by "
    "requests from here where that cannot run (needs a server without other load).",
)
@click.option(
    "--hold",
    "hold_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Watch the process for so long [default: the inventory's hold_s].",
)
@click.option(
    "--distribution",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Expect this distribution [default: what the host's release says it is].",
)
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    selection: Selection,
    exercise: bool,
    hold_s: float | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Collect evidence from servers: what was expected, what was seen, and where.

    Process, install, route, marker and a real generation; with --exercise also the switch itself, and whether
    greedy texts stay the same. Nothing is changed or restarted.

    Exit code 0: all proven, 1: something is not, 4: a host cannot be reached.
    """
    output = output_of(ctx, as_json)
    hosts = selected(selection, output).hosts
    wanted = Distribution.load(folder) if folder else None

    # what was seen is told whatever becomes of the rest
    found: dict[str, list[Report]] = {config.name: [] for config in hosts}
    failed: dict[str, list[SpecctlError]] = {config.name: [] for config in hosts}

    def look(host: Host, config: HostConfig, server: ServerConfig, say: Say) -> Report:
        say(server.name)
        return verify_server(
            host,
            config,
            server,
            service_for(host, config, server),
            distribution=wanted,
            hold_s=hold_s,
            with_exercise=exercise,
            progress=lambda step: say(f"{server.name}: {step}"),
        )

    def one(host: Host, config: HostConfig, say: Say) -> None:
        for server in config.servers:
            try:
                found[config.name].append(look(host, config, server, say))
            except (Unreachable, HostTimeout):
                raise  # the host's other servers cannot be asked either
            except SpecctlError as exc:
                exc.context.setdefault("server", server.name)
                failed[config.name].append(let_go(exc))

    outcomes = on_hosts(hosts, one, output)
    reports = [report for of_host in found.values() for report in of_host]
    errors = [(name, error) for name, of_host in failed.items() for error in of_host] + errors_of(outcomes)
    proven = all(report.ok for report in reports)
    code = exit_code([error for _, error in errors], ok=proven)
    if as_json:
        servers = [report_document(report) for report in reports]
        output.json(document(code, errors, ok=proven and not errors, servers=servers))
    else:
        for report in reports:
            show_report(report, output)
        for _, error in errors:
            output.error(error)
    ctx.exit(int(code))
