"""Monitoring for servers with the switch: a Prometheus configuration, alerts, and a Grafana dashboard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from specctl.config.model import HostConfig
from specctl.errors import UsageError

FILES = ("prometheus.yml", "alerts.yml", "grafana-dashboard.json")
TARGETS = "targets.json"


def write_examples(folder: Path, hosts: Sequence[HostConfig]) -> list[Path]:
    """Write the examples, with these servers as targets, which are replaced.

    Raises:
        UsageError: one of the other files is there with another content; nothing is written then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: resources.files(__package__).joinpath(name).read_text("utf-8") for name in FILES}
    edited = [
        n for n, text in texts.items() if (folder / n).exists() and (folder / n).read_text("utf-8") != text
    ]
    if edited:
        raise UsageError(
            f"{folder / edited[0]} is there and is not the example",
            code="example-edited",
            context={"files": ", ".join(edited)},
            hint="choose another folder, or move what is there",
        )
    written = []
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        written.append(folder / name)
    path = folder / TARGETS
    path.write_text(json.dumps(targets(hosts), indent=2) + "\n", encoding="utf-8")
    return [*written, path]


def targets(hosts: Sequence[HostConfig]) -> list[dict[str, object]]:
    """Prometheus's file-based service discovery: one group for each server, labelled host and server."""
    return [
        {
            "targets": [f"{_address(host)}:{server.port}"],
            "labels": {"host": host.name, "server": server.name},
        }
        for host in hosts
        for server in host.servers
    ]


def _address(host: HostConfig) -> str:
    if host.connection == "local":
        return "127.0.0.1"
    return f"[{host.ssh.address}]" if ":" in host.ssh.address else host.ssh.address
