"""The commands with which a host's own undo stops and starts servers, with nobody connected."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specctl.config.model import HostConfig, Supervisor
from specctl.host.protocol import Host
from specctl.service import granted
from specctl.service.account import Account, read_account
from specctl.service.supervisor_conf import SupervisorPaths, ini_value
from specctl.service.systemd_argv import systemctl

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Commands:
    """How one supervisor is driven from a program on the host. Each function gets the unit's name."""

    launch: Argv  # put before the watcher's argv: what keeps it alive without the connection
    boot: Mapping[str, str | Mapping[str, str]]  # path -> text or {"link": target}: starts it with the host
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
    account = read_account(host)
    return systemd_commands(as_user(account, config.sudo), user=True, account=account)


def as_user(account: Account, sudo: bool) -> Argv:
    """What a command needs in front to reach the user's own manager, also when root runs it."""
    environment = ("env", f"XDG_RUNTIME_DIR=/run/user/{account.uid}")
    return ("runuser", "-u", account.name, "--", *environment) if sudo and account.uid != 0 else environment


BOOT_UNIT = """[Unit]
Description=specctl: put the old release back, should its operator not have returned
StartLimitIntervalSec=0
{after}
[Service]
Type=exec
ExecStart=@COMMAND@
Restart=on-failure
RestartSec=5
"""
BOOT_PROGRAM = """[program:{name}]
command=@COMMAND@
priority=1
autostart=true
autorestart=unexpected
exitcodes=0
startsecs=0
redirect_stderr=true
stdout_logfile={log}
stdout_logfile_maxbytes=0
"""


def systemd_commands(prefix: Argv, *, user: bool, account: Account | None = None) -> Commands:
    """systemd: the watcher becomes a transient unit, which no logout ends, and a unit that a start of the
    host starts, for a host that restarts before the operator is back."""

    def call(*words: str) -> Argv:
        return (*prefix, *systemctl(*words, user=user))

    # with sudo the watcher itself runs as root, under the system's manager
    own = user and "runuser" not in prefix
    launch = (*(prefix if own else ()), "systemd-run", *(("--user",) if own else ()))
    folder = f"{account.home}/.config/systemd/user" if own and account else "/etc/systemd/system"
    target = "default.target" if own else "multi-user.target"
    after = f"After=user@{account.uid}.service\n" if account and not own else ""
    unit = "specctl-undo-boot-{run}.service"
    return Commands(
        launch=(*launch, "--quiet", "--collect", "--unit=specctl-undo-{run}"),
        boot={
            f"{folder}/{unit}": BOOT_UNIT.format(after=after),
            f"{folder}/{target}.wants/{unit}": {"link": f"../{unit}"},
        },
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
        boot={},  # root has enabled that unit
        reload=(),
        stop=lambda unit: (call("stop", "--", unit), call("reset-failed", "--", unit)),
        start=lambda unit: (call("start", "--", unit),),
        check=lambda unit: systemctl("is-active", "--quiet", "--", unit, user=False),
    )


def supervisor_commands(paths: SupervisorPaths) -> Commands:
    """supervisor: `update` reads a changed program and starts it; `start` does what is left."""

    def call(*words: str) -> Argv:
        return (paths.python, "-m", "supervisor.supervisorctl", "-c", paths.conf, *words)

    name, log = "specctl-undo-{run}", f"{paths.root.rstrip('/')}/deadman/watch.log"
    return Commands(
        launch=(),
        boot={paths.program(name): BOOT_PROGRAM.format(name=name, log=ini_value(log))},
        reload=(),
        stop=lambda unit: (call("stop", unit),),
        start=lambda unit: (call("update", unit), call("start", unit)),
        check=lambda unit: call("status", unit),
    )
