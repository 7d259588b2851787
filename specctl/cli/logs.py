"""`specctl logs`: what servers write, from one host or from many."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

import click

from specctl.cli.main import json_option, output_of
from specctl.cli.output import Output
from specctl.cli.selection import Selection, of_server, selected, selection_options
from specctl.cli.servers import exit_code
from specctl.config.model import HostConfig, ServerConfig
from specctl.errors import SpecctlError, UsageError
from specctl.host.connect import connect
from specctl.host.parallel import each
from specctl.service.factory import service_for
from specctl.service.protocol import Cursor, LogLine, LogSlice
from specctl.service.state import read_state

_SPAN = re.compile(r"(\d+)\s*([smhd])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# a server's log may hold what a user sent: nothing of it may move the terminal's cursor or change its title
_CONTROL = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
MOST = 100_000
Pair = tuple[HostConfig, ServerConfig]


@click.command()
@click.argument("server", required=False)
@selection_options
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines as they come, until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(0, MOST), help="Only the last N lines [default: 100].")
@click.option(
    "--since",
    metavar="WHEN",
    help="'restart': since specctl last started it; or a span such as 90s, 10m, 2h, 1d.",
)
@json_option
@click.pass_context
def logs(
    ctx: click.Context,
    server: str | None,
    selection: Selection,
    follow: bool,
    lines: int | None,
    since: str | None,
    as_json: bool,
) -> None:
    """Show the log of SERVER (all selected servers when it is left out).

    With --json each line is one JSON document. With several servers each line says whose it is.
    """
    output = output_of(ctx, as_json)
    span = _span(since)
    chosen = [
        (config, found)
        for config in selected(of_server(selection, server), output).hosts
        for found in config.servers
    ]
    printer = _Printer(output, named=len(chosen) > 1, oldest=None if span is None else time.time() - span)
    wanted = lines if lines is not None else (MOST if since else 100)

    def one(pair: tuple[HostConfig, ServerConfig]) -> None:
        config, found = pair
        host = connect(config)
        try:
            service = service_for(host, config, found)
            cursor = None
            if since == "restart":
                state = read_state(host, config.root, found.name, sudo=config.sudo)
                cursor = Cursor(state.cursor) if state and state.cursor else None
            if follow:
                if not service.state().exists:
                    output.note(
                        f"{config.name} {found.name}: not deployed yet, so it has no log; waiting for one"
                    )
                service.follow(lambda line: printer.line(config, found, line), cursor=cursor, history=wanted)
            elif wanted:
                log = service.lines_since(cursor or Cursor(""), limit=wanted, tail=0)
                if not log.lines and not service.state().exists:
                    raise _no_log(config, found)
                printer.slice(config, found, log)
        finally:
            host.close()

    errors = _follow_all(chosen, one) if follow and len(chosen) > 1 else _all(chosen, one)
    for error in errors:
        if as_json:
            click.echo(json.dumps({"error": error.as_dict()}))
        else:
            output.error(error)
    ctx.exit(int(exit_code(errors, ok=True)))


def _all(chosen: list[Pair], one: Callable[[Pair], None]) -> list[SpecctlError]:
    """Every server once; a single one in this thread, so that Ctrl-C ends what it runs."""
    if len(chosen) == 1:
        try:
            one(chosen[0])
        except SpecctlError as exc:
            return [exc]
        return []
    return [outcome.error for outcome in each(chosen, one) if outcome.error is not None]


def _follow_all(chosen: list[Pair], one: Callable[[Pair], None]) -> list[SpecctlError]:
    """All at once, in threads that do not keep the process alive after Ctrl-C."""
    errors: list[SpecctlError] = []

    def run(pair: Pair) -> None:
        try:
            one(pair)
        except SpecctlError as exc:
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(pair,), daemon=True) for pair in chosen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def _no_log(config: HostConfig, server: ServerConfig) -> SpecctlError:
    return SpecctlError(
        f"{server.name} on {config.name} has no log: it is not deployed yet",
        code="no-log",
        context={"host": config.name, "server": server.name},
        hint="specctl deploy puts it there; specctl logs -f waits for its first line",
    )


class _Printer:
    """Prints whole lines of several servers, none from before `oldest` (seconds since the epoch)."""

    def __init__(self, output: Output, *, named: bool, oldest: float | None) -> None:
        self.output, self.named, self.oldest = output, named, oldest
        self.lock = threading.Lock()

    def slice(self, config: HostConfig, server: ServerConfig, log: LogSlice) -> None:
        for line in log.lines:
            self.line(config, server, line)
        if log.dropped or (not log.complete and not log.lines):
            self.output.note(f"{config.name} {server.name}: {log.reason}")
        elif not log.lines:
            self.output.note(f"{config.name} {server.name}: no line yet ({log.where})")

    def line(self, config: HostConfig, server: ServerConfig, line: LogLine) -> None:
        if self.oldest is not None:
            if line.at is None:
                raise UsageError(
                    f"the log of {server.name} on {config.name} is a file without a clock",
                    code="no-clock",
                    hint="use --since restart, or -n N",
                )
            if line.at < self.oldest:
                return
        if self.output.as_json:
            text = json.dumps({"host": config.name, "server": server.name, **asdict(line)})
        else:
            prefix = f"{config.name} {server.name}: " if self.named else ""
            text = prefix + _CONTROL.sub("", line.text)
        with self.lock:
            click.echo(text)


def _span(since: str | None) -> float | None:
    """Seconds of a span such as 10m; None for no limit in time."""
    if since in (None, "restart"):
        return None
    found = _SPAN.match(since or "")
    if not found:
        raise UsageError(
            f"--since {since!r} is no time span", code="since", hint="write 'restart', 90s, 10m, 2h or 1d"
        )
    return float(int(found[1]) * _SECONDS[found[2]])
