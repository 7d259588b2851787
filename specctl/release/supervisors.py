"""The commands with which a host's own undo stops and starts servers, with nobody connected."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from specctl.config.model import HostConfig, Supervisor
from specctl.host.protocol import Host
from specctl.service import granted
from specctl.service.account import Account, read_account
from specctl.service.supervisor_conf import SupervisorPaths
from specctl.service.systemd_argv import systemctl

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Commands:
    """How one supervisor is driven from a program on the host. Each function gets the unit's name."""

    launch: Argv  # put before the watcher's argv: what keeps it alive without the connection
    reload: tuple[Argv, ...]  # after unit files were put back
    stop: Callable[[str], tuple[Argv, ...]]
    start: Callable[[str], tuple[Argv, ...]]
    check: Callable[[str], Argv]  # exit code 0: it runs


def commands_for(config: HostConfig, host: Host) -> Commands:
    """The commands for this host's supervisor; asks the host who we are when units belong to a user."""
    if config.supervisor is Supervisor.SUPERVISOR:
        return supervisor_commands(SupervisorPaths(config.root))
    if config.sudo_units:
        return granted_commands()
    if config.supervisor is Supervisor.SYSTEMD:
        return systemd_commands((), user=False)
    return systemd_commands(as_user(read_account(host), config.sudo), user=True)


def as_user(account: Account, sudo: bool) -> Argv:
    """What a command needs in front to reach the user's own manager, also when root runs it."""
    environment = ("env", f"XDG_RUNTIME_DIR=/run/user/{account.uid}")
    return ("runuser", "-u", account.name, "--", *environment) if sudo and account.uid != 0 else environment


def systemd_commands(prefix: Argv, *, user: bool) -> Commands:
    """systemd: the watcher becomes a transient unit, which no logout ends."""

    def call(*words: str) -> Argv:
        return (*prefix, *systemctl(*words, user=user))

    # with sudo the watcher itself runs as root, under the system's manager
    own = user and "runuser" not in prefix
    launch = (*(prefix if own else ()), "systemd-run", *(("--user",) if own else ()))
    return Commands(
        launch=(*launch, "--quiet", "--collect", "--unit=specctl-undo-{run}"),
        reload=(call("daemon-reload"),),
        stop=lambda unit: (call("stop", "--", unit), call("reset-failed", "--", unit)),
        start=lambda unit: (call("start", "--", unit),),
        check=lambda unit: call("is-active", "--quiet", "--", unit),
    )


def granted_commands() -> Commands:
    """systemd, where sudo allows these words and no others; the watcher is a unit that root set up."""

    def call(*words: str) -> Argv:
        return (*granted.SUDO, *systemctl(*words, user=False))

    start = shlex.join((*granted.SUDO, *granted.undo_command()))
    return Commands(
        launch=(
            "sh",
            "-c",
            f"exec {start}",
        ),  # the unit knows the watcher's argv: what is appended is dropped
        reload=(),
        stop=lambda unit: (call("stop", "--", unit), call("reset-failed", "--", unit)),
        start=lambda unit: (call("start", "--", unit),),
        check=lambda unit: systemctl("is-active", "--quiet", "--", unit, user=False),
    )


def supervisor_commands(paths: SupervisorPaths) -> Commands:
    """supervisor: `update` reads a changed program and starts it; `start` does what is left."""

    def call(*words: str) -> Argv:
        return (paths.python, "-m", "supervisor.supervisorctl", "-c", paths.conf, *words)

    return Commands(
        launch=(),
        reload=(),
        stop=lambda unit: (call("stop", unit),),
        start=lambda unit: (call("update", unit), call("start", unit)),
        check=lambda unit: call("status", unit),
    )
