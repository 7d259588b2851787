"""Plots of a sweep: throughput, time for each token and gain over concurrency, with the crossover's band."""

from __future__ import annotations

import importlib
import io
from typing import Any

from specctl.errors import UsageError
from specctl.tune.crossover import Crossover
from specctl.tune.curves import LABELS, curve
from specctl.tune.model import Mode, contexts_of
from specctl.tune.recommend import ends
from specctl.tune.result import Result

COLOURS = {Mode.PLAIN: "#7a7a7a", Mode.OFF: "#1f5fa8", Mode.ON: "#c9541c", Mode.DYNAMIC: "#1d8a57"}
STYLES = {Mode.PLAIN: ":", Mode.OFF: "-", Mode.ON: "-", Mode.DYNAMIC: "--"}
MARKS = {Mode.PLAIN: "x", Mode.OFF: "o", Mode.ON: "s", Mode.DYNAMIC: "D"}
BAND = "#d9b44a"


def need_matplotlib() -> None:
    """Say early that plots cannot be made.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        importlib.import_module("matplotlib")
    except ImportError as exc:
        raise UsageError(
            "plots need matplotlib, which is not installed",
            code="no-matplotlib",
            hint="pip install 'specctl[tune]', or give --no-plots",
        ) from exc


def draw(result: Result, kind: str) -> bytes:
    """The whole figure as "png" or "svg"; one row for each workload."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    contexts = contexts_of(result.samples)
    style: Any = {"svg.fonttype": "path", "svg.hashsalt": "specctl", "font.size": 9, "axes.titlesize": 10}
    with rc_context(style):
        figure = Figure(figsize=(13, 3.6 * len(contexts) + 0.7), layout="constrained")
        figure.get_layout_engine().set(hspace=0.08, wspace=0.03)  # type: ignore[union-attr,call-arg]
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(contexts), 3, squeeze=False)
        for row, context in enumerate(contexts):
            _row(result, context, axes[row], last=row == len(contexts) - 1)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        stream = io.BytesIO()
        figure.savefig(stream, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return stream.getvalue()


def _row(result: Result, context: str, axes: Any, *, last: bool) -> None:
    speed, time, gain = axes
    for mode in (Mode.PLAIN, Mode.OFF, Mode.ON, Mode.DYNAMIC):
        points = curve(result.samples, mode, context)
        if not points:
            continue
        levels = [p.level for p in points]
        look = {
            "color": COLOURS[mode],
            "linestyle": STYLES[mode],
            "marker": MARKS[mode],
            "markersize": 4,
            "linewidth": 1.5,
            "label": LABELS[mode],
        }
        means = [p.tokens_per_s for p in points]
        spread = [
            [p.tokens_per_s - p.lowest for p in points],
            [p.highest - p.tokens_per_s for p in points],
        ]
        speed.errorbar(levels, means, yerr=spread, capsize=2, elinewidth=0.8, **look)
        time.plot(levels, [p.tpot_ms for p in points], **look)
    found = result.by_context.get(context, result.overall)
    levels = [g.level for g in found.gains]
    gain.plot(levels, [g.ratio for g in found.gains], "o", color=COLOURS[Mode.ON], markersize=4)
    gain.plot(levels, [g.fitted for g in found.gains], "-", color=COLOURS[Mode.ON], linewidth=1.2)
    gain.axhline(1.0, color="#555555", linewidth=0.8)
    for axis, title, unit in (
        (speed, f"Throughput, {context}", "generated tokens/s"),
        (time, "Inter-token latency (median over requests)", "ms for each token"),
        (gain, "Throughput on / off", "ratio; above 1 speculation pays"),
    ):
        axis.set_title(title, loc="left")
        axis.set_ylabel(unit)
        axis.set_xscale("log", base=2)
        axis.set_xticks(levels, [str(level) for level in levels])
        axis.minorticks_off()
        axis.grid(visible=True, color="#e5e5e5", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        if axis is not gain:
            axis.set_ylim(bottom=0)
        if last:
            axis.set_xlabel("requests at once")
        _mark(axis, found)
    low, high = ends(found)
    where = f"crossover {found.at:.1f} ({low} to {high})" if found.at is not None else "no crossover"
    gain.set_title(where, loc="right", fontsize=8.5, color="#444444")


def _mark(axis: Any, found: Crossover) -> None:
    """The crossover and its band; an open side reaches the edge of what was measured."""
    if found.at is None:
        return
    first, last = found.gains[0].level, found.gains[-1].level
    low = found.low if found.low is not None else first
    high = found.high if found.high is not None else last
    words = "95 % band of the crossover" if found.has_interval else "levels around the crossover"
    axis.axvspan(low, high, color=BAND, alpha=0.25, linewidth=0, label=words)
    axis.axvline(found.at, color=BAND, linewidth=1.4, label="crossover")
