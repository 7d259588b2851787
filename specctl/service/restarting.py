"""Starts and restarts that leave their trace: the cursor and the invocation that `verify` needs."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

from specctl.config.model import HostConfig, ServerConfig
from specctl.host.protocol import Host
from specctl.service.errors import ServiceError
from specctl.service.protocol import Cursor, Service
from specctl.service.state import ServerState, read_state, write_state


def restart_server(
    host: Host,
    config: HostConfig,
    server: ServerConfig,
    service: Service,
    *,
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.timezone.utc),
) -> Cursor:
    """Stop the server if it runs, wait until all of it is gone, start it, and note where its log begins.

    Raises:
        ServiceError: there is no such unit on the host.
        StillThere: the old process, its GPU memory or its port did not go away.
    """
    if not service.state().exists:
        raise ServiceError(
            f"{service.name} is not installed on {host.name}",
            code="no-unit",
            context={"host": host.name, "unit": service.name},
            hint=f"deploy it first: specctl deploy --hosts {host.name}",
        )
    cursor = service.restart(server.timers.stop_s, port=server.port)
    remembered = read_state(host, config.root, server.name, sudo=config.sudo)
    state = remembered or ServerState(server.name, "", "", service.name)
    state = replace(
        state,
        unit=service.name,
        cursor=cursor.value,
        invocation=service.state().invocation,
        restarted_at=now().isoformat(timespec="seconds"),
    )
    write_state(host, config.root, state, sudo=config.sudo)
    return cursor
