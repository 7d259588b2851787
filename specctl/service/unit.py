"""From an inventory to a `Unit`: what one server runs, before any supervisor's syntax. Pure."""

from __future__ import annotations

from specctl.config.command import server_argv, server_env
from specctl.config.model import HostConfig, ServerConfig, Supervisor
from specctl.service.protocol import Unit

MARKER_VARIABLE = "SPECCTL_UNIT"  # set in every server's environment; finds its strays


def unit_name(server: str) -> str:
    """specctl-<server>: the unit's name without a supervisor's suffix."""
    return f"specctl-{server}"


def server_folder(root: str, server: str) -> str:
    return f"{root.rstrip('/')}/servers/{server}"


def server_python(root: str, server: str) -> str:
    """The interpreter of whatever release `current` points to when the server starts."""
    return f"{server_folder(root, server)}/current/venv/bin/python"


def env_file_path(root: str, server: str) -> str:
    """The 0600 file with the secret environment variables."""
    return f"{server_folder(root, server)}/secrets.env"


def unit_for(host: HostConfig, server: ServerConfig, *, user: str | None = None) -> Unit:
    """The unit of one server.

    The working directory is the server's own folder: `python -m` puts it in front of the import path, so it
    must hold no `sglang`.

    Args:
        user: whom a system unit runs as. None: the login user where `sudo` is used, else whoever the
            supervisor runs as. Ignored by user units.
    """
    folder = server_folder(host.root, server.name)
    if user is None and host.sudo and host.supervisor is Supervisor.SYSTEMD:
        user = host.ssh.user
    name = unit_name(server.name)
    return Unit(
        name=name,
        description=f"SGLang server {server.name} (specctl)",
        argv=server_argv(server, python=server_python(host.root, server.name)),
        working_dir=folder,
        env={**server_env(server), MARKER_VARIABLE: name},
        env_file=env_file_path(host.root, server.name) if server.secrets else None,
        log_file=f"{folder}/server.log",
        user=user,
        stop_s=server.timers.stop_s,
    )
