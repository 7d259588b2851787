"""One host, examined: what is asked of it, and the rules that judge the answers."""

from __future__ import annotations

from collections.abc import Callable

from specctl.base.model import Base
from specctl.config.command import server_env
from specctl.config.model import HostConfig, ServerConfig
from specctl.doctor import environment
from specctl.doctor.machine import check_machine
from specctl.doctor.model import Check, HostReport, fail, ok
from specctl.doctor.needs import Needs
from specctl.doctor.server import check_server
from specctl.doctor.trust import check_exposure, check_trust
from specctl.evidence.expectation import launch_args
from specctl.host.errors import FileRefused, HostError, Unreachable
from specctl.host.facts import Facts, gather
from specctl.host.protocol import Host
from specctl.route.model import Route
from specctl.route.predict import predict
from specctl.service.sudoers import commands, unit_files
from specctl.service.units_only import missing_of

Step = Callable[[str], None]


def _quiet(step: str) -> None:
    """Say nothing."""


def examine(host: Host, config: HostConfig, base: Base, needs: Needs, *, say: Step = _quiet) -> HostReport:
    """Ask a host and judge what it says. Reads only; `say` is told what is being done.

    A host that cannot be reached, or answers nothing usable, is a report with that one check.
    """
    try:
        say("facts")
        facts = gather(host, config)
        environments = []
        for folder in environment.folders(config, facts):
            say(f"importing what is in {folder}")
            environments.append(environment.inspect(host, folder))
        missing = missing_of(host, unit_files(config), commands(config)) if config.sudo_units else []
        routes = {server.name: _route(host, server, facts, base) for server in config.servers}
    except HostError as exc:
        return HostReport(config.name, not isinstance(exc, Unreachable), (_kept_away(exc),), error=exc)
    advice = environment.advise(config, facts, needs, environments)
    checks = [ok("reach", f"{facts.user}@{config.name}"), *check_machine(config, facts, needs)]
    checks += check_trust(config, facts, missing)
    for found in environments:
        checks += environment.judge(config, found, needs)
    checks.append(environment.check_advice(advice))
    for server in config.servers:
        checks += check_server(config, server, facts, routes[server.name])
        checks += check_exposure(server)
    return HostReport(config.name, True, tuple(checks), advice)


def _route(host: Host, server: ServerConfig, facts: Facts, base: Base) -> Route:
    model = facts.model(server.model)
    architecture = next(iter(model.architectures), None) if model else None

    def read(path: str) -> bytes | None:
        try:
            return host.read(path)
        except FileRefused:
            return None

    return predict(base.like, launch_args(server), server_env(server), architecture=architecture, read=read)


def _kept_away(exc: HostError) -> Check:
    details = [f"{label}: {text}" for label, text in exc.context.items() if label != "host"]
    return fail("reach", "\n".join([exc.message, *details]), exc.hint or "see the cause")
