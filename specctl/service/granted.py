"""What root sets up once, so that a login user needs sudo for systemctl alone. Pure.

Root owns the unit files and they never change: each starts a launcher below specctl's root, as the login
user, and the launcher is what a deploy writes. So a deploy needs root for nothing but start and stop.
"""

from __future__ import annotations

from dataclasses import replace

from specctl.service.protocol import Unit, UnitFile
from specctl.service.systemd_argv import systemctl
from specctl.service.systemd_unit import path_value, render_unit

Argv = tuple[str, ...]

UNITS = "/etc/systemd/system"
UNDO = "specctl.undo.service"  # of the host's own undo; the names of servers' units begin with specctl-
SUDO: Argv = ("sudo", "-n", "--")

# whatever Python 3 the host has, as `specctl.host.commands` finds it
_WATCH = 'exec "$(command -v python3 || echo /usr/libexec/platform-python)" -I "$1/deadman/watch.py" "$1"'


def launcher_path(unit: Unit) -> str:
    """The script that becomes the server, in the server's own folder."""
    return f"{unit.working_dir}/launch.sh"


def fixed_unit(unit: Unit) -> UnitFile:
    """The unit file of a server, free of everything that a deploy may change."""
    launcher = launcher_path(unit)
    bare = replace(unit, argv=("/bin/sh", launcher), env={}, env_file=None)
    # until the first deploy there is nothing to start at boot
    condition = f"[Unit]\nConditionPathExists={path_value(launcher)}\n"
    text = render_unit(bare, user_manager=False).replace("[Unit]\n", condition, 1)
    return UnitFile(f"{UNITS}/{unit.name}.service", text.encode())


def undo_unit(root: str, user: str) -> UnitFile:
    """The unit that keeps the host's own undo alive when the operator's connection is gone.

    It also starts with the host: one that restarts before its operator is back goes back then.
    """
    unit = Unit(
        name=UNDO.removesuffix(".service"),
        description=f"specctl's undo below {root}",
        argv=("/bin/sh", "-c", _WATCH, "specctl-undo", root),
        working_dir=root,
        user=user,
        start_window_s=0.0,  # no limit: one start for each deploy
    )
    condition = f"[Unit]\nConditionPathExists={path_value(root)}/deadman/watch.py\n"
    text = render_unit(unit, user_manager=False).replace("[Unit]\n", condition, 1)
    return UnitFile(f"{UNITS}/{UNDO}", text.encode())


def commands_of(unit: str) -> tuple[Argv, ...]:
    """Every systemctl that specctl runs as root for one server's unit, word for word."""
    return (
        systemctl("reset-failed", "--", unit, user=False),
        systemctl("start", "--", unit, user=False),
        systemctl("stop", "--", unit, user=False),
        systemctl("stop", "--no-block", "--", unit, user=False),
    )


def undo_command() -> Argv:
    """Starts the watcher; `restart`, because the one of the deploy before may not have ended yet."""
    return systemctl("restart", "--", UNDO, user=False)
