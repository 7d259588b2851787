"""`specctl tune`: measure where speculation stops to pay on a server, and set it there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from specctl.cli.main import json_option, output_of
from specctl.cli.output import Output
from specctl.cli.selection import Selection, selected, selection_options
from specctl.cli.tune_apply import apply
from specctl.cli.tune_options import plain_boot, workloads
from specctl.config.model import HostConfig, ServerConfig
from specctl.errors import SpecctlError, UsageError
from specctl.host.connect import connect
from specctl.release.wiring import service_on
from specctl.tune.curves import columns, rows
from specctl.tune.load import Run
from specctl.tune.model import Mode, contexts_of
from specctl.tune.page import page, svg_element
from specctl.tune.plot import draw, need_matplotlib
from specctl.tune.result import Result
from specctl.tune.signals import interruptible, undisturbed
from specctl.tune.tuning import Options, Tuning, levels_from


@click.command()
@click.argument("server")
@selection_options
@click.option("--levels", multiple=True, metavar="N,N", help="Requests at once [default: 1 up to the limit].")
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Your own prompts, JSON lines or text; again for another context length.",
)
@click.option(
    "--context", "contexts", multiple=True, metavar="N,N", help="Tokens of made prompts [default: 256,2048]."
)
@click.option(
    "--output-len", type=click.IntRange(min=4), default=128, show_default=True, help="Tokens of each answer."
)
@click.option("--repetitions", type=click.IntRange(min=1), default=3, show_default=True, help="Of each run.")
@click.option(
    "--waves",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Requests for each place in a run.",
)
@click.option(
    "--run-limit", type=click.FloatRange(min=10), default=900.0, metavar="SECONDS", help="Of one run."
)
@click.option(
    "--plain-boot/--no-plain-boot",
    default=None,
    help="At the end, restart the server once without speculation to check off with it, and then as it was "
    "[default: asked on a terminal, done with --yes, else left out and said so].",
)
@click.option("--no-dynamic", is_flag=True, help="Do not measure the proposed threshold.")
@click.option("--busy", is_flag=True, help="Measure although others use the server.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where results go; an interrupted sweep goes on there [default: tune-HOST-SERVER].",
)
@click.option(
    "--no-plots", is_flag=True, help="No PNG, and a page without the figure (matplotlib is not needed)."
)
@click.option("--no-apply", is_flag=True, help="Only measure and report.")
@click.option(
    "--yes",
    "-y",
    is_flag=True,
    help="Ask nothing: restart for the plain server, write the inventory, roll out.",
)
@json_option
@click.pass_context
def tune(ctx: click.Context, /, server: str, selection: Selection, **given: Any) -> None:
    """Measure SERVER with speculation on and off, find where they cross, and propose a threshold.

    The load is SGLang's own serving benchmark, on the host, from the release's environment. On and off are
    measured on the running server by setting its threshold; every way out puts it back. The proposal goes
    into the inventory after its difference is shown, and then to the server: live, or by a restart where the
    server does not take it live.
    """
    output = output_of(ctx, given["as_json"])
    if not given["no_plots"]:
        need_matplotlib()
    chosen = selected(replace(selection, servers=(server,)), output)
    config, found = _the_one(chosen.hosts, server)
    may_restart, why_not_plain = plain_boot(given, found, output)
    levels = levels_from(given["levels"])
    options = Options(
        workloads=workloads(given, levels),
        levels=levels,
        repetitions=given["repetitions"],
        waves=given["waves"],
        plain_boot=may_restart,
        why_not_plain=why_not_plain,
        dynamic=not given["no_dynamic"],
        busy=given["busy"],
        limit_s=given["run_limit"],
    )
    folder = given["out"] or Path(f"tune-{config.name}-{found.name}")
    host = connect(config)
    try:
        with _bar(output) as bar:
            tuning = Tuning(
                host, config, found, service_on(host, config, found), options, folder, bar.say, bar.tell
            )
            result = _measure(tuning, bar, output, plots=not given["no_plots"])
        _show(result, folder, output)
        done = None
        if not given["no_apply"]:
            done = apply(tuning, result, chosen.inventory.path, output, yes=given["yes"])
        if output.as_json:
            how = None if done is None else "live" if done.live else "restart"
            files = sorted(map(str, folder.iterdir()))
            output.json({**result.as_dict(), "applied": how, "files": files})
    finally:
        host.close()


class _Bar:
    """Progress on stderr: a bar on a terminal, a line for each run in a pipe."""

    def __init__(self, progress: Progress, output: Output) -> None:
        self.progress, self.output = progress, output
        self.task = progress.add_task("starting", total=None)
        self.counts: dict[Mode, int] = {}  # runs to make, by kind and in order; on and off are one kind

    def say(self, text: str) -> None:
        self.progress.update(self.task, description=escape(text))
        if not self.output.err.is_terminal:
            self.output.note(text)

    def tell(self, run: Run, left: int) -> None:
        kinds, total = list(self.counts), sum(self.counts.values())
        kind = Mode.ON if run.mode is Mode.OFF else run.mode
        later = sum(self.counts[k] for k in kinds[kinds.index(kind) + 1 :])
        number = total - later - left + 1
        self.progress.update(self.task, total=total, completed=number - 1)
        self.say(f"run {number} of {total}: {run.mode.value}, {run.context}, {run.level} at once")


@contextmanager
def _bar(output: Output) -> Iterator[_Bar]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=output.err,
        transient=True,
        disable=not output.err.is_terminal,
    )
    with progress:
        yield _Bar(progress, output)


def _measure(tuning: Tuning, bar: _Bar, output: Output, *, plots: bool) -> Result:
    """Survey, measure and write the report; an interrupted sweep keeps what it has, and says where."""
    tuning.survey()
    record = tuning.open_record()
    bar.counts = {
        mode: sum(not record.has(run) for run in runs) for mode, runs in tuning.runs().items() if runs
    }
    output.note(
        f"{tuning.server.name} on {tuning.config.name}: {len(tuning.levels)} levels "
        f"up to {tuning.levels[-1]}, {sum(bar.counts.values())} runs to go; results in {tuning.folder}"
    )
    with interruptible():
        try:
            result = tuning.measure(record)
        except (KeyboardInterrupt, SpecctlError) as exc:
            with undisturbed():
                _keep(tuning, record, output, plots=plots)
            if isinstance(exc, SpecctlError):
                exc.hint = f"{exc.hint or ''}\ngo on with --out {tuning.folder} once it is repaired".strip()
            raise
    write_report(result, tuning.folder, plots=plots)
    return result


def _keep(tuning: Tuning, record: Any, output: Output, *, plots: bool) -> None:
    """After an interruption: the report of what there is, and how to go on."""
    output.note(
        f"stopped after {len(record.samples)} runs; the server has {tuning.before} again. "
        f"The runs are kept in {tuning.folder}; the same command goes on there"
    )
    try:
        write_report(tuning.conclude(record), tuning.folder, plots=plots)
    except SpecctlError:
        return  # too few for a report
    output.note(f"a report of what there is: {tuning.folder / 'report.html'}")


def write_report(result: Result, folder: Path, *, plots: bool) -> None:
    """result.json, report.html and throughput.png."""
    document = json.dumps(result.as_dict(), indent=2) + "\n"
    (folder / "result.json").write_text(document, encoding="utf-8")
    svg = svg_element(draw(result, "svg")) if plots else ""
    (folder / "report.html").write_text(page(result, svg), encoding="utf-8")
    if plots:
        (folder / "throughput.png").write_bytes(draw(result, "png"))


def _show(result: Result, folder: Path, output: Output) -> None:
    if output.as_json:
        return
    output.table(columns(result.samples), rows(result.samples, contexts_of(result.samples)))
    output.line("")
    output.line(f"{result.server} on {result.host}: {result.proposal.sentence}")
    output.line(f"proposed: {result.proposal.values} (before: {result.before})")
    if result.proposal.advice:
        output.line(f"advice: {result.proposal.advice}")
    output.line(result.plain.sentence)
    for note in result.notes:
        output.note(f"note: {note}")
    output.line(f"report: {folder / 'report.html'}")


def _the_one(hosts: tuple[HostConfig, ...], server: str) -> tuple[HostConfig, ServerConfig]:
    if len(hosts) != 1:
        raise UsageError(
            f"{server} is on {len(hosts)} hosts; one is tuned at a time",
            code="one-server",
            context={"hosts": ", ".join(h.name for h in hosts)},
            hint="name one with --hosts",
        )
    return hosts[0], hosts[0].servers[0]
