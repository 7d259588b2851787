"""The release engine on real hosts: its ports filled with the rest of specctl."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from specctl.build.distribution import Distribution
from specctl.config.model import HostConfig, SecretRef, ServerConfig, Supervisor
from specctl.config.secrets import Secret, resolve_secret
from specctl.evidence.collect import prove
from specctl.evidence.expectation import expectation_for
from specctl.evidence.model import Expectation
from specctl.host.connect import connect
from specctl.host.facts import Facts, gather
from specctl.host.protocol import Host
from specctl.release.deploy_plan import Installer
from specctl.release.engine import Ports
from specctl.release.fitness import check_fit
from specctl.release.layout import Layout
from specctl.release.source import own_uv
from specctl.release.state import HostState
from specctl.service.factory import service_for
from specctl.service.protocol import Service


def real_ports(environ: Mapping[str, str] = os.environ) -> Ports:
    """Ports to real hosts. `environ`: where secrets of kind `env` are read."""
    return Ports(
        connect=connect,
        service=service_on,
        expect=expect_on,
        prove=prove,
        installer=installer_on,
        secret=secret_reader(environ),
        owner=owner_of,
    )


def service_on(host: Host, config: HostConfig, server: ServerConfig) -> Service:
    """A host that gets its wheels pushed gets supervisor's from there too."""
    links = Layout(config.root).wheels if config.wheelhouse else None
    return service_for(host, config, server, find_links=links)


def expect_on(
    host: Host, config: HostConfig, server: ServerConfig, distribution: Distribution
) -> Expectation:
    """What must be seen; a route that depends on files of the host reads them there."""
    return expectation_for(config, server, distribution, read=lambda path: host.read(path, sudo=config.sudo))


def installer_on(
    host: Host, config: HostConfig, state: HostState, packages: int
) -> tuple[Installer, int | None, dict[str, str]]:
    """How packages get installed there, the bytes free below the root, and what a lock's markers ask for.

    Raises:
        PlanRefused: they cannot be.
    """
    facts = gather(host, config)
    root = facts.folder("root")
    installer = choose_installer(config, facts, state)
    check_fit(config, facts, state, installer.uv, packages)
    return (
        installer,
        root.free_bytes if root else None,
        markers_of(config, facts),
    )


def choose_installer(config: HostConfig, facts: Facts, state: HostState) -> Installer:
    """uv: the one we pushed before, else ours where it fits the machine, else the host's own; or else pip.

    Ours comes before the host's: an old uv may not know what the lock is written in.
    """
    ours = own_uv()
    if ours is not None and facts.machine == ours[2]:
        path = Layout(config.root).uv(ours[0])
        there = f"uv-{ours[0]}" in state.tools
        return Installer(uv=path, push=None if there else replace(ours[1], remote=path))
    return Installer(uv=facts.tools.get("uv"))


def markers_of(config: HostConfig, facts: Facts) -> dict[str, str]:
    """PEP 508 variables of the environment that would be made there."""
    markers = {}
    python = facts.python(config.python)
    if python is not None and python.version:
        markers["python_full_version"] = python.version
        markers["python_version"] = ".".join(python.version.split(".")[:2])
    if facts.machine:
        markers["platform_machine"] = facts.machine
    return markers


def owner_of(config: HostConfig) -> str | None:
    """With sudo, files are written by root and a system's server runs as the login user."""
    return config.ssh.user if config.sudo and config.supervisor is Supervisor.SYSTEMD else None


def secret_reader(environ: Mapping[str, str]) -> Callable[[SecretRef], Secret]:
    """Reads each secret once: a command may ask its user for a PIN."""
    known: dict[SecretRef, Secret] = {}
    guard = threading.Lock()

    def read(ref: SecretRef) -> Secret:
        with guard:
            if ref not in known:
                known[ref] = resolve_secret(ref, environ=environ)
            return known[ref]

    return read
