"""`specctl hosts`: what an inventory means, with every range, group and inherited setting written out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from specctl.cli.main import json_option, output_of
from specctl.cli.selection import Selection, selected, selection_options
from specctl.config.inventory import example_text
from specctl.config.model import HostConfig, SecretRef, ServerConfig, SshConfig, ThresholdPolicy

COLUMNS = ("host", "address", "groups", "server", "port", "gpus", "threshold", "supervisor")


@click.command()
@selection_options
@click.option("--example", is_flag=True, help="Print an annotated inventory with every key, and stop.")
@json_option
@click.pass_context
def hosts(ctx: click.Context, selection: Selection, example: bool, as_json: bool) -> None:
    """Show the hosts of the inventory; touches none of them."""
    if example:
        click.echo(example_text(), nl=False)
        return
    output = output_of(ctx, as_json)
    found = selected(selection, output)
    if as_json:
        names = {host.name for host in found.hosts}
        output.json(
            {
                "inventory": str(found.inventory.path),
                "hosts": [_host_document(host) for host in found.hosts],
                "groups": {
                    group: [name for name in members if name in names]
                    for group, members in found.inventory.groups.items()
                },
                "warnings": list(found.inventory.warnings),
            }
        )
        return
    output.table(COLUMNS, [row for host in found.hosts for row in _rows(host)])


def _rows(host: HostConfig) -> list[tuple[str, ...]]:
    """One row for each server; each tells the host, so that a row found by grep says all."""
    return [
        (
            host.name,
            _address(host),
            ", ".join(host.groups) or "-",
            server.name,
            str(server.port),
            ",".join(map(str, server.gpus)) or "all",
            _threshold(server.threshold),
            host.supervisor.value,
        )
        for server in host.servers
    ]


def _address(host: HostConfig) -> str:
    if host.connection == "local":
        return "(this machine)"
    hops = [_login(hop) for hop in host.ssh.jumps]
    return _login(host.ssh) + (f" via {', '.join(hops)}" if hops else "")


def _login(ssh: SshConfig) -> str:
    user = f"{ssh.user}@" if ssh.user else ""
    port = f":{ssh.port}" if "port" in ssh.explicit and ssh.port != 22 else ""
    return f"{user}[{ssh.address}]{port}" if port and ":" in ssh.address else f"{user}{ssh.address}{port}"


def _threshold(policy: ThresholdPolicy | None) -> str:
    """`>16, <=14 x4, lazy`: off above 16, on again after 4 steps at or below 14."""
    if policy is None:
        return "-"
    parts = [f">{policy.disable}"]
    if policy.resume is not None or policy.resume_steps is not None:
        resume = f"<={policy.resume}" if policy.resume is not None else ""
        steps = f"x{policy.resume_steps}" if policy.resume_steps is not None else ""
        parts.append(" ".join(part for part in (resume, steps) if part))
    if policy.draft_sync is not None:
        parts.append(policy.draft_sync)
    return ", ".join(parts)


def _host_document(host: HostConfig) -> dict[str, Any]:
    document = asdict(host)
    document["ssh"] = _ssh_document(host.ssh)
    document["servers"] = [_server_document(server) for server in host.servers]
    return document


def _ssh_document(ssh: SshConfig) -> dict[str, Any]:
    return {
        **asdict(ssh),
        "jumps": [_ssh_document(hop) for hop in ssh.jumps],
        "explicit": sorted(ssh.explicit),
    }


def _server_document(server: ServerConfig) -> dict[str, Any]:
    return {
        **asdict(server),
        "secrets": {name: _reference(ref) for name, ref in server.secrets.items()},
        "secret_args": {name: _reference(ref) for name, ref in server.secret_args.items()},
    }


def _reference(ref: SecretRef) -> dict[str, str]:
    """Where a secret comes from; of a command only the program, since its words may hold a token."""
    return {ref.kind: ref.source.split(" ")[0] if ref.kind == "command" else ref.source}
