"""`specctl start|stop|restart`: the life of servers, and the evidence after a start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from specctl.cli.document import document, errors_of
from specctl.cli.evidence_view import report_document, show_report
from specctl.cli.main import json_option, output_of
from specctl.cli.output import Output
from specctl.cli.selection import Selection, selected, selection_options
from specctl.cli.servers import Say, exit_code, on_hosts
from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.expectation import launch_args, local_url
from specctl.evidence.model import Report
from specctl.evidence.ready import await_ready
from specctl.evidence.verify import verify_server
from specctl.host.protocol import Host
from specctl.release.clock import Operator, SystemClock, new_run_id
from specctl.release.clock import stamp as time_stamp
from specctl.release.lock import HostLock
from specctl.release.remote import Remote
from specctl.service.factory import service_for
from specctl.service.restarting import restart_server

LOCK_MARGIN_S = 120.0


@dataclass(frozen=True)
class Done:
    """What came of one server."""

    host: str
    server: str
    text: str
    report: Report | None = None

    @property
    def ok(self) -> bool:
        return self.report is None or self.report.ok

    def as_dict(self) -> dict[str, Any]:
        report = report_document(self.report) if self.report else None
        return {
            "host": self.host,
            "server": self.server,
            "result": self.text,
            "ok": self.ok,
            "report": report,
        }


Order = Callable[[Host, HostConfig, ServerConfig, Say], Done]
no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait for it, and show no evidence.")


@click.command()
@selection_options
@no_wait_option
@json_option
@click.pass_context
def start(ctx: click.Context, selection: Selection, no_wait: bool, as_json: bool) -> None:
    """Start servers that do not run, wait until they are healthy, and show the evidence."""
    output = output_of(ctx, as_json)
    ctx.exit(_carry_out(selection, output, "start", lambda *a: _start(*a, wait=not no_wait, again=False)))


@click.command()
@selection_options
@no_wait_option
@json_option
@click.pass_context
def restart(ctx: click.Context, selection: Selection, no_wait: bool, as_json: bool) -> None:
    """Restart servers: wait until the old process, its GPU memory and its port are free, then start."""
    output = output_of(ctx, as_json)
    ctx.exit(_carry_out(selection, output, "restart", lambda *a: _start(*a, wait=not no_wait, again=True)))


@click.command()
@selection_options
@json_option
@click.pass_context
def stop(ctx: click.Context, selection: Selection, as_json: bool) -> None:
    """Stop servers, and wait until nothing of them is left."""
    ctx.exit(_carry_out(selection, output_of(ctx, as_json), "stop", _stop))


def _start(
    host: Host, config: HostConfig, server: ServerConfig, say: Say, *, wait: bool, again: bool
) -> Done:
    service = service_for(host, config, server)
    if not again and service.state().running:
        return Done(config.name, server.name, "runs already")
    say(f"{server.name}: stopping the old process" if again else f"{server.name}: starting")
    cursor = restart_server(host, config, server, service)
    text = "restarted" if again else "started"
    if not wait:
        return Done(config.name, server.name, f"{text}; not waited for")
    await_ready(
        host,
        service,
        local_url(server, launch_args(server)),
        cursor=cursor,
        start_s=server.timers.start_s,
        sudo=config.sudo,
        progress=lambda step: say(f"{server.name}: {step}"),
    )
    report = verify_server(host, config, server, service, progress=lambda step: say(f"{server.name}: {step}"))
    return Done(config.name, server.name, text, report)


def _stop(host: Host, config: HostConfig, server: ServerConfig, say: Say) -> Done:
    say(f"{server.name}: stopping")
    outcome = service_for(host, config, server).stop(server.timers.stop_s)
    if not outcome.was_running:
        return Done(config.name, server.name, "did not run")
    how = " (SIGKILL was needed)" if outcome.killed else ""
    return Done(config.name, server.name, f"stopped in {outcome.seconds:.0f} s{how}")


def _carry_out(selection: Selection, output: Output, verb: str, order: Order) -> int:
    """Run an order on every selected server, under each host's lock; show what came of it."""
    hosts = selected(selection, output).hosts
    came: dict[str, list[Done]] = {config.name: [] for config in hosts}  # also of hosts that failed half way

    def one(host: Host, config: HostConfig, say: Say) -> None:
        clock = SystemClock()
        names = " ".join(server.name for server in config.servers)
        remote = Remote(host, config.root, new_run_id(clock), config.sudo)
        lock = HostLock(remote, Operator.here(), f"{verb} {names}", time_stamp(clock))
        longest = sum(s.timers.stop_s + s.timers.start_s + s.timers.hold_s for s in config.servers)
        lock.acquire(verb, longest + LOCK_MARGIN_S)
        try:
            for server in config.servers:
                came[config.name].append(order(host, config, server, say))
        finally:
            lock.release()

    outcomes = on_hosts(hosts, one, output)
    done = [d for of_host in came.values() for d in of_host]
    errors = errors_of(outcomes)
    code = exit_code([error for _, error in errors], ok=all(d.ok for d in done), done=bool(done))
    if output.as_json:
        output.json(document(code, errors, servers=[d.as_dict() for d in done]))
    else:
        for d in done:
            output.line(f"{d.host} {d.server}: {d.text}")
            if d.report is not None:
                show_report(d.report, output)
        for _, error in errors:
            output.error(error)
    return int(code)
