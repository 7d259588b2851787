"""Hosts against each other, and the settings of one host that do not go together."""

from __future__ import annotations

from collections.abc import Sequence

from specctl.config.checks.case import HostCase
from specctl.config.model import EnvironmentKind, HostConfig, Supervisor
from specctl.config.problems import Problems
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


def _check_rights(case: HostCase) -> None:
    host = case.host
    if host.sudo and host.supervisor is Supervisor.SYSTEMD_USER:
        text = "systemd-user manages units of the login user; with sudo it would be root's"
        case.refuse("rights", case.at("sudo"), text, "take sudo out, or use supervisor: systemd")
    user = host.ssh.user
    if host.connection == "local" or host.sudo or user in (None, "root"):
        return
    if host.supervisor is Supervisor.SYSTEMD:
        text = f"{user} cannot manage system units without sudo"
        case.warn("rights", case.at("supervisor"), text, "add `sudo: true`, or use supervisor: systemd-user")
    elif host.root.startswith(_ROOTS_OWN):
        text = f"{user} may not be able to write {host.root} without sudo"
        case.warn("rights", case.at("root"), text, f"set e.g. `root: /home/{user}/specctl`")
