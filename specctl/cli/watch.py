"""`specctl watch`: what each server does now, in place on a terminal, one line a change in a pipe."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from specctl.cli.main import output_of
from specctl.cli.output import Output
from specctl.cli.selection import Selection, selected, selection_options
from specctl.cli.servers import exit_code
from specctl.cli.waiting import show_waiting
from specctl.config.model import HostConfig
from specctl.errors import SpecctlError
from specctl.exits import ExitCode
from specctl.host.connect import connect
from specctl.host.parallel import each
from specctl.host.protocol import Host
from specctl.tune.examples import write_examples
from specctl.tune.live import Look, look
from specctl.tune.watching import Moment, Watched

NARROW = 80  # columns of a terminal, below which a table of so many columns cannot be read
COLUMNS = (
    *("host", "server", "now", "batch", "threshold", "switches/min", "accepted", "tokens/s", "off graphs"),
    "warnings",
)


@click.command()
@selection_options
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks.",
)
@click.option("--once", is_flag=True, help="One look, then end.")
@click.option(
    "--for",
    "for_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="End after so long [default: at Ctrl-C].",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line, for every server of every look."
)
@click.option(
    "--examples",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Watch nothing: write a Prometheus configuration, alerts and a Grafana dashboard for these servers.",
)
@click.pass_context
def watch(
    ctx: click.Context,
    selection: Selection,
    interval: float,
    once: bool,
    for_s: float | None,
    as_json: bool,
    examples: Path | None,
) -> None:
    """Watch servers: on or off, batch, threshold, switches, accepted length, decode speed, graphs.

    Refreshed in place; in a pipe or on a narrow terminal, a line for each change. It warns about flapping, an
    off path without CUDA graphs, a useless draft, and a threshold that the running-request limit makes dead.
    Changes nothing.

    With --once and --for the last look decides. Exit code 0: all is well, 1: a server is down, 3: there is a
    warning, 4: a host cannot be reached.
    """
    output = output_of(ctx, as_json)
    hosts = selected(selection, output).hosts
    if examples is not None:
        for path in write_examples(examples, hosts):
            output.line(str(path))
        return
    deadline = None if for_s is None else time.monotonic() + for_s
    watcher = _Watcher(hosts)
    moments: list[Moment] = []
    try:
        with _screen(output, enabled=_wide_terminal(output) and not as_json) as show:
            while True:
                begin = time.monotonic()
                moments = watcher.look()
                show(moments)
                left = interval - (time.monotonic() - begin)
                if once or (deadline is not None and time.monotonic() + max(0.0, left) > deadline):
                    break
                time.sleep(max(0.0, left))
    except KeyboardInterrupt:
        ctx.exit(int(ExitCode.OK))  # Ctrl-C is how one stops watching
    finally:
        watcher.close()
    code = exit_code(watcher.errors, ok=not any(m.state == "down" for m in moments))
    if code is ExitCode.OK and any(m.warnings for m in moments):
        code = ExitCode.CHANGES
    ctx.exit(int(code))


class _Watcher:
    """Connections and histories of all watched servers."""

    def __init__(self, hosts: Sequence[HostConfig]) -> None:
        self.hosts = hosts
        self.links: dict[str, Host] = {}
        self.errors: list[SpecctlError] = []  # what kept hosts away at the last look
        self.watched = {(h.name, s.name): Watched(h.name, s.name) for h in hosts for s in h.servers}

    def look(self) -> list[Moment]:
        """One look at every server, all hosts at once."""
        moments = []
        outcomes = each(self.hosts, self._host)
        self.errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        for outcome in outcomes:
            config = outcome.key
            for i, server in enumerate(config.servers):
                seen = outcome.value[i] if outcome.value else Look(error=_reason(outcome.error))
                moments.append(self.watched[config.name, server.name].see(seen))
        return moments

    def _host(self, config: HostConfig) -> list[Look]:
        host = self.links.get(config.name) or self.links.setdefault(config.name, connect(config))
        try:
            return [look(host, config, server) for server in config.servers]
        except SpecctlError:
            self.links.pop(config.name, None)  # a lost link is opened anew at the next look
            with contextlib.suppress(Exception):
                host.close()
            raise

    def close(self) -> None:
        for host in self.links.values():
            with contextlib.suppress(Exception):
                host.close()


def _wide_terminal(output: Output) -> bool:
    return output.out.is_terminal and output.out.width >= NARROW


def _reason(error: SpecctlError | None) -> str:
    return error.message if error else "no answer"


@contextlib.contextmanager
def _screen(output: Output, *, enabled: bool):  # type: ignore[no-untyped-def]
    """How moments are shown: a table in place, or lines."""
    if enabled:
        show_waiting(replace(output, err=output.out))  # above the table, not into it
        with Live(console=output.out, auto_refresh=False, transient=False) as live:
            yield lambda moments: live.update(table(moments), refresh=True)
        return
    yield _json_lines() if output.as_json else _lines(output)


def _lines(output: Output) -> Callable[[list[Moment]], None]:
    """A line for a server when something about it has changed."""
    last: dict[tuple[str, str], tuple[object, ...]] = {}

    def show(moments: list[Moment]) -> None:
        for m in moments:
            if last.get((m.host, m.server)) != m.key:
                last[m.host, m.server] = m.key
                output.line(f"{time.strftime('%H:%M:%S')} {m.line}")
        sys.stdout.flush()

    return show


def _json_lines() -> Callable[[list[Moment]], None]:
    def show(moments: list[Moment]) -> None:
        for m in moments:
            sys.stdout.write(json.dumps({"time": time.time(), **asdict(m)}) + "\n")
        sys.stdout.flush()

    return show


def table(moments: Sequence[Moment]) -> Table:
    """All servers as they are now."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        shown.add_column(column, overflow="fold")
    styles = {"on": "green", "off": "yellow", "down": "red", "mixed": "red"}
    for m in moments:
        limits = "-" if m.threshold is None else f"{m.threshold}/{m.resume} after {m.dwell}"
        shown.add_row(
            escape(m.host),
            escape(m.server),
            Text(m.state, style=styles.get(m.state, "")),
            _number(m.batch),
            limits,
            _number(m.per_minute, 1),
            _number(m.accept_length, 2),
            _number(m.tokens_per_s, 0),
            {True: "yes", False: "no", None: "-"}[m.graphs],
            Text(
                "; ".join([*([m.detail] if m.detail else []), *m.warnings]), style="red" if m.warnings else ""
            ),
        )
    return shown


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
