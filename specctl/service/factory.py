"""Which `Service` a host's inventory asks for."""

from __future__ import annotations

import time
from collections.abc import Callable

from specctl.config.model import HostConfig, ServerConfig, Supervisor
from specctl.host.protocol import Host
from specctl.service.protocol import Service
from specctl.service.supervisor import SupervisorService
from specctl.service.systemd import SystemdService
from specctl.service.unit import server_folder, unit_name
from specctl.service.units_only import UnitsOnlyService


def service_for(
    host: Host,
    config: HostConfig,
    server: ServerConfig,
    *,
    find_links: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Service:
    """The service of one server; touches nothing.

    Args:
        find_links: a folder on the host with the wheels of `supervisor`, for hosts without an index.
        sleep: waits, in seconds.
    """
    name = unit_name(server.name)
    if config.supervisor is Supervisor.SUPERVISOR:
        return SupervisorService(
            host,
            name,
            root=config.root,
            folder=server_folder(config.root, server.name),
            python=config.python,
            find_links=find_links,
            sudo=config.sudo,
            sleep=sleep,
        )
    if config.sudo_units:
        return UnitsOnlyService(
            host,
            name,
            folder=server_folder(config.root, server.name),
            root=config.root,
            login=config.ssh.user or "",
            sleep=sleep,
        )
    user = config.supervisor is Supervisor.SYSTEMD_USER
    return SystemdService(host, name, user=user, sudo=config.sudo, sleep=sleep)
