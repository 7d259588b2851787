"""A result as a page of tables: the Markdown file beside its JSON. Pure; an older result lacks some parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

_LEVEL = {
    "worker": "worker",
    "prompt_tokens": "in",
    "output_tokens": "out",
    "concurrency": "requests",
    "threshold": "threshold",
    "plain": "plain",
    "plain_no_overlap": "plain without overlap",
    "static": "static",
    "dynamic": "dynamic",
    "ratio": "ratio",
    "ratio_low": "lowest",
    "ratio_high": "highest",
    "repetitions": "repetitions",
    "decode_ratio": "decoding while off, over plain",
    "decode_graphs": "share of steps in a graph",
}
_LOAD = {
    "server": "server",
    "seconds": "seconds",
    "tok_s": "tok/s",
    "itl_p50_ms": "ms a token, median",
    "itl_p99_ms": "99 %",
    "gap_p99_ms": "ms between chunks, 99 %",
    "gap_max_ms": "longest",
    "switches": "switches",
}
# part of the result: heading, what to know about it, columns
PARTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "levels": (
        "Loads",
        "Output tok/s, medians. Ratio: dynamic over the better of plain and static; lowest and highest are "
        "of single repetitions. Decoding: the log's own figure, without prefills.",
        _LEVEL,
    ),
    "backends": ("Other attention backends", "As above.", {"backend": "backend", **_LEVEL}),
    "sweep": (
        "Mixed load",
        "Requests of 64 to 256 tokens out; their number goes 1, 2, 4 .. top .. 4, 2, 1 in equal times.",
        {"top": "top", **_LOAD},
    ),
    "hold": (
        "A steady load at the threshold",
        "As many requests as the threshold, and one more or less.",
        {"hold": "requests", **_LOAD},
    ),
    "policies": (
        "The draft while off",
        "What `--speculative-disable-draft-sync` costs above the threshold, over plain in the same run.",
        {
            "server": "server",
            "output_tokens": "out",
            "concurrency": "requests",
            "tok_s": "tok/s",
            "over_plain": "over plain",
            "decode_over_plain": "decoding over plain",
        },
    ),
    "returns": (
        "After a return",
        "Accepted tokens a step once speculation is back, beside a draft that was never off and goes on with "
        "the same text. Milliseconds are medians of a step.",
        {
            "experiment": "experiment",
            "server": "server",
            "returns": "returns",
            "accept_after": "accepted after",
            "accept_never_off": "never off",
            "ratio": "ratio",
            "ratio_first_40_tokens": "ratio, at most 40 tokens",
            "same_text": "same text",
            "off_ms": "ms while off",
            "first_ms": "first step back",
            "on_ms": "later ones",
        },
    ),
    "identity": (
        "Greedy texts",
        "How many equal the plain server's first run. bfloat16: other kernels round differently.",
        {
            "concurrency": "requests",
            "server": "server",
            "same": "same",
            "of": "of",
            "median_first_difference": "first different token, median",
        },
    ),
    "startup": (
        "Start",
        "From the process to the first healthy answer, alone on the GPU; memory once it has answered.",
        {"server": "server", "starts": "starts", "median_s": "seconds", "used_mib": "GPU memory, MiB"},
    ),
    "crossover": (
        "Static over plain",
        "Where it falls below 1 is where the threshold belongs.",
        {
            "worker": "worker",
            "output_tokens": "out",
            "concurrency": "requests",
            "static_over_plain": "static over plain",
            "n": "repetitions",
        },
    ),
}


def cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if value < 100 else f"{value:.0f}"
    return "" if value is None else str(value)


def table(rows: Sequence[Row], columns: Mapping[str, str]) -> list[str]:
    """A Markdown table of those columns that some row has; figures stand on the right."""
    shown = {k: title for k, title in columns.items() if any(r.get(k) is not None for r in rows)}
    is_text = [any(isinstance(r.get(k), str) for r in rows) for k in shown]
    return [
        "| " + " | ".join(shown.values()) + " |",
        "| " + " | ".join("---" if t else "---:" for t in is_text) + " |",
        *("| " + " | ".join(cell(r.get(k)) for k in shown) + " |" for r in rows),
    ]


def with_steps(row: Row) -> Row:
    """A row of `returns` with its median steps as columns of their own."""
    return {**row, **{f"{kind}_ms": s["p50"] for kind, s in row.get("step_ms", {}).items()}}


def page(result: Mapping[str, Any]) -> str:
    """Every table that has rows, under the line that says what was measured."""
    lines = [
        f"# {result['release']} on one {result['gpu']}, {result['date']}",
        "",
        f"{result['model']}. The same figures are in the JSON file beside this one.",
        "",
    ]
    for part, (heading, about, columns) in PARTS.items():
        if rows := [with_steps(r) for r in result.get(part, ())]:
            lines += [f"## {heading}", "", about, "", *table(rows, columns), ""]
    if result["suggested_thresholds"]:
        found = ", ".join(f"{worker} {n}" for worker, n in result["suggested_thresholds"].items())
        lines += [f"The largest measured load at which static was no slower than plain: {found}.", ""]
    if result["errors"]:
        lines += ["## What went wrong", "", "Left out above, and done again where time was left.", ""]
        lines += [*(f"- `{error}`" for error in result["errors"]), ""]
    return "\n".join(lines)
