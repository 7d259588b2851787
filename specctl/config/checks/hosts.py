"""Hosts against each other, and the settings of one host that do not go together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specctl.config.checks.case import HostCase
from specctl.config.model import EnvironmentKind, HostConfig, Supervisor
from specctl.config.problems import Problems, did_you_mean
from specctl.config.reader import place
from specctl.config.resolve import PlacedHost

_ROOTS_OWN = ("/opt", "/srv", "/usr", "/var")  # places that a plain user can usually not write


def check_addresses(placed: Sequence[PlacedHost], problems: Problems) -> None:
    """One machine under two names would be deployed to twice, at the same time."""
    seen: dict[object, HostConfig] = {}
    written = {host.config.name: place(host.settings, "address") for host in placed}
    for host in placed:
        machine, label = _machine(host.config)
        first = seen.setdefault(machine, host.config)
        if first is host.config:
            continue
        where = place(host.settings, "address")
        text = f"{host.config.name} and {first.name} are one machine: {label}"
        hint = "name each machine once; several servers go under servers:"
        name: str | None = None
        if host.config.connection == "ssh" and where == written[first.name]:
            text, name = f"one address for several hosts: {label}", host.config.name
            hint = "write as many addresses as names, e.g. 10.0.0.[11:14], or use {name}"
        problems.add("duplicate-address", where, text, hint, host=name)


def _machine(host: HostConfig) -> tuple[object, str]:
    if host.connection == "local":
        # Two roots on this machine are a rehearsal of two hosts.
        return ("local", host.root), f"this machine, root {host.root}"
    hops = tuple((hop.address.lower(), hop.port) for hop in host.ssh.jumps)
    return (host.ssh.address.lower(), host.ssh.port, hops), f"{host.ssh.address} port {host.ssh.port}"


def check_host(case: HostCase) -> None:
    """Environment and rights."""
    host = case.host
    adopted = host.environment is EnvironmentKind.ADOPTED
    if adopted and host.adopt is None:
        text = "environment: adopted needs to know which one"
        case.refuse("adopt", case.at("environment"), text, "add `adopt:`, the folder that holds bin/python")
    if host.adopt is not None and not adopted:
        text = "adopt is set, but the environment is locked"
        case.refuse("adopt", case.at("adopt"), text, "add `environment: adopted`, or take adopt out")
    _check_rights(case)


def check_base(case: HostCase, bases: Collection[str] | None) -> None:
    """Doubtful only: a distribution that was built elsewhere can be of a base that is only known there."""
    base = case.host.base
    if bases is not None and base not in bases:
        text = f"no base of SGLang {base} is known here"
        case.warn("base", case.at("base"), text, did_you_mean(base, bases))


def _check_rights(case: HostCase) -> None:
    host = case.host
    if host.sudo and host.supervisor is Supervisor.SYSTEMD_USER:
        text = "systemd-user manages units of the login user; with sudo it would be root's"
        case.refuse("rights", case.at("sudo"), text, "take sudo out, or use supervisor: systemd")
    user = host.ssh.user
    if host.sudo_units:
        _check_units(case)
    if host.connection == "local" or host.sudo or host.sudo_units or user in (None, "root"):
        return
    if host.supervisor is Supervisor.SYSTEMD:
        text = f"{user} cannot manage system units without sudo"
        case.warn("rights", case.at("supervisor"), text, "add `sudo: units`, or use supervisor: systemd-user")
    elif host.root.startswith(_ROOTS_OWN):
        text = f"{user} may not be able to write {host.root} without sudo"
        case.warn("rights", case.at("root"), text, f"set e.g. `root: /home/{user}/specctl`")


def _check_units(case: HostCase) -> None:
    """`sudo: units` needs an account that the unit files can name, and units to name it in."""
    host, user = case.host, case.host.ssh.user
    if host.supervisor is not Supervisor.SYSTEMD:
        text = f"sudo: units is about system units, and the supervisor is {host.supervisor.value}"
        case.refuse("rights", case.at("sudo"), text, "take sudo out: this supervisor needs none")
    elif host.connection == "local":
        text = "sudo: units is for hosts by ssh"
        case.refuse("rights", case.at("sudo"), text, "use supervisor: systemd-user, which needs no sudo")
    elif user is None:
        text = "the unit files name the login user, and the inventory does not say who that is"
        case.refuse("rights", case.at("sudo"), text, "add `ssh: {user: NAME}`")
    elif user == "root":
        text = "root needs no sudo, and its servers would run as root"
        case.refuse("rights", case.at("sudo"), text, "log in as another user, or take sudo out")
