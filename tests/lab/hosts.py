"""Hosts of the lab as specctl sees them, for tests in any folder."""

from __future__ import annotations

from typing import Any

from specctl.config.model import HostConfig, SshConfig

from .lab import Lab


def ssh_to(lab: Lab, name: str, **changes: Any) -> SshConfig:
    """How to reach a lab host as `deploy`, with short timeouts; `changes` replace fields."""
    fields: dict[str, Any] = {
        "address": lab.machine(name).address,
        "user": "deploy",
        "identity_file": str(lab.key),
        "known_hosts": str(lab.known_hosts),
        "config_file": "none",
        "connect_timeout_s": 3.0,
        "command_timeout_s": 20.0,
    }
    return SshConfig(**{**fields, **changes})


def host_config(lab: Lab, name: str, *servers: Any, **changes: Any) -> HostConfig:
    """A lab host in the form of an inventory's; `ssh` in `changes` holds changes of its SshConfig."""
    ssh = ssh_to(lab, name, **changes.pop("ssh", {}))
    return HostConfig(name=name, ssh=ssh, servers=tuple(servers), **changes)
