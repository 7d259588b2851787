"""What a host's login user needs sudo for, as a sudoers file, and the script that sets it up. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from specctl.config.model import HostConfig, Supervisor
from specctl.service import granted
from specctl.service.protocol import UnitFile
from specctl.service.unit import unit_for

_FOLDERS = ("/usr/bin", "/bin")  # sudo compares what it finds on its own path with these
_ANYTHING = ("timeout", "env", "sh", "true")  # the words that `specctl.host.command.wrap` puts behind sudo
_END = "SPECCTL-END"


@dataclass(frozen=True)
class Grant:
    """What one host needs.

    `why` tells people what it amounts to. `sudoers` is None where nothing needs sudo, `setup` where root has
    nothing to do.
    """

    host: str
    user: str | None
    equals_root: bool
    why: str
    sudoers: str | None = None
    setup: str | None = None


def grant_for(config: HostConfig) -> Grant:
    """What specctl runs with sudo on this host, and nothing else."""
    user = config.ssh.user
    if config.sudo_units:
        rules = _sudoers(config, user or "", _words_of_units(config), _UNITS_NOTE)
        return Grant(config.name, user, False, _UNITS_WHY, rules, _setup(config, user or "", rules))
    if user == "root":
        return Grant(config.name, user, True, "specctl logs in as root: there is nothing to allow")
    if config.sudo:
        words = [f"{folder}/{name}" for name in _ANYTHING for folder in _FOLDERS]
        return Grant(config.name, user, True, _ROOT_WHY, _sudoers(config, user or "", words, _ROOT_NOTE))
    linger = config.supervisor is Supervisor.SYSTEMD_USER
    once = f"; once, root runs: loginctl enable-linger {user or 'USER'}" if linger else ""
    return Grant(config.name, user, False, f"specctl runs nothing with sudo here{once}")


_UNITS_WHY = "sudo for systemctl alone, on units that root wrote; the servers run as the login user"
_ROOT_WHY = "equal to root: with `sudo: true` specctl runs programs of its own as root"
_UNITS_NOTE = (
    "Every word is fixed. The units are root's files and run as the login user, so who has",
    "that user can start and stop these servers, and become nobody else by it.",
)
_ROOT_NOTE = (
    "THIS IS EQUAL TO ROOT. With `sudo: true` specctl sends programs to sh and Python and runs them as",
    "root; no list of commands makes that less. `sudo: units` needs far less, systemd-user nothing.",
)


def commands(config: HostConfig) -> tuple[granted.Argv, ...]:
    """Every command that `sudo: units` runs by sudo on this host."""
    names = [f"{unit_for(config, server).name}.service" for server in config.servers]
    return (granted.undo_command(), *(argv for name in names for argv in granted.commands_of(name)))


def _words_of_units(config: HostConfig) -> list[str]:
    return [
        " ".join([f"{folder}/{argv[0]}", *(escape(word) for word in argv[1:])])
        for argv in commands(config)
        for folder in _FOLDERS
    ]


def escape(word: str) -> str:
    """A word of a sudoers rule that means itself: no wildcard, no end of the rule."""
    return re.sub(r"([^A-Za-z0-9_./-])", r"\\\1", word)


def _sudoers(config: HostConfig, user: str, commands: list[str], note: tuple[str, ...]) -> str:
    alias = "SPECCTL_" + re.sub(r"[^A-Z0-9_]", "_", (user or "login user").upper())
    rules = ", \\\n    ".join(commands)
    lines = [
        f"# specctl on {config.name}. Check with `visudo -cf`, keep with mode 0440 in /etc/sudoers.d",
        *(f"# {line}" for line in note),
        f"Cmnd_Alias {alias} = \\\n    {rules}",
        f"{escape(user or 'USER')} ALL=(root) NOPASSWD: {alias}",
    ]
    return "\n".join(lines) + "\n"


def unit_files(config: HostConfig) -> tuple[UnitFile, ...]:
    """The unit files of root's that `sudo: units` needs."""
    servers = tuple(granted.fixed_unit(unit_for(config, server)) for server in config.servers)
    return (*servers, granted.undo_unit(config.root, config.ssh.user or ""))


def _setup(config: HostConfig, user: str, rules: str) -> str:
    """A script for root; running it again is no harm."""
    q = shlex.quote
    # sudo passes over files whose name has a dot
    place = "/etc/sudoers.d/specctl-" + re.sub(r"[^A-Za-z0-9_-]", "_", user)
    units = unit_files(config)
    names = [unit.path.rsplit("/", 1)[1] for unit in units]
    lines = [
        "#!/bin/sh",
        f"# Sets {config.name} up for specctl's `sudo: units`. Run it there as root; again after a change of",
        "# servers, root, user or timers in the inventory. It is all that specctl needs root for.",
        "set -eu",
        "umask 022",
        f"group=$(id -gn {q(user)})",
        "# what an earlier `sudo: true` left there is root's",
        f'if [ "$(stat -c %u {q(config.root)} 2>/dev/null)" = 0 ]; then',
        f'    chown -hR {q(user)}:"$group" {q(config.root)}',
        "fi",
        f'install -d -o {q(user)} -g "$group" -m 755 {q(config.root)}',
        f"usermod -aG systemd-journal {q(user)}",
    ]
    for unit in units:
        lines += _file(unit.path, unit.data.decode(), "644")
    lines += [
        "systemctl daemon-reload",
        f"systemctl enable {shlex.join(names)}",
        *_file(place, rules, "440", check="visudo -cqf"),
    ]
    return "\n".join(lines) + "\n"


def _file(path: str, text: str, mode: str, check: str | None = None) -> list[str]:
    temporary, there = shlex.quote(f"{path}.new"), shlex.quote(path)
    return [
        f"cat > {temporary} <<'{_END}'",
        *text.splitlines(),
        _END,
        f"chmod {mode} {temporary}",
        *([f"{check} {temporary}"] if check else []),
        f"mv {temporary} {there}",
    ]
