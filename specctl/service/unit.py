"""From an inventory to a `Unit`: what one server runs, before any supervisor's syntax. Pure."""

from __future__ import annotations

from specctl.config.command import server_argv, server_env
from specctl.config.model import HostConfig, ServerConfig, Supervisor
from specctl.service.protocol import Unit

# what systemd gives a unit; SGLang and FlashInfer call `ninja` and compilers by name
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Set in every server's environment to its folder, by which strays are found where there is no control group.
# Not the server's name: two roots on one host may both have a `main`.
MARKER_VARIABLE = "SPECCTL_SERVER"


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

    PATH begins with the release's own programs (ninja, for kernels compiled at the first start), unless the
    inventory sets it. The working directory is the server's own folder: `python -m` puts it in front of the
    import path, so it must hold no `sglang`.

    Args:
        user: whom a system unit runs as. None: the login user where `sudo` is used, else whoever the
            supervisor runs as. Ignored by user units.
    """
    folder = server_folder(host.root, server.name)
    adopted = [f"{host.adopt}/bin"] if host.adopt else []
    path = ":".join([f"{folder}/current/venv/bin", *adopted, _SYSTEM_PATH])
    if user is None and (host.sudo or host.sudo_units) and host.supervisor is Supervisor.SYSTEMD:
        user = host.ssh.user
    name = unit_name(server.name)
    return Unit(
        name=name,
        description=f"SGLang server {server.name} (specctl)",
        argv=server_argv(server, python=server_python(host.root, server.name)),
        working_dir=folder,
        env={"PATH": path, **server_env(server), MARKER_VARIABLE: folder},
        env_file=env_file_path(host.root, server.name) if server.secrets else None,
        log_file=f"{folder}/server.log",
        user=user,
        stop_s=server.timers.stop_s,
    )
