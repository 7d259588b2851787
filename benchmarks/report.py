"""Show a result: the table for people, the plot, JSON and page under results/, the README's table."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.merge import WORKERS, merge
from benchmarks.tables import PARTS, page

RESULTS = Path(__file__).resolve().parent / "results"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.+]+", "-", text.lower()).strip("-")


def result_name(result: Mapping[str, Any]) -> str:
    return f"{slug(str(result['release']))}-{slug(str(result['gpu']))}-{result['date']}"


def load_pieces(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Read pieces in the order of their names, which end in the time they began."""
    ordered = sorted(paths, key=lambda p: p.stem.rpartition("-")[2])
    return [{**json.loads(p.read_text(encoding="utf-8")), "name": p.stem.rpartition("-")[2]} for p in ordered]


def shapes(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    return sorted({(r["prompt_tokens"], r["output_tokens"]) for r in rows})


def markdown(result: Mapping[str, Any]) -> str:
    """The README's table: one row a load, the two workers side by side."""
    rows = result["levels"]
    lines = [
        f"{result['release']} on one {result['gpu']}, {result['date']}: {result['model']}. Output tok/s, "
        "medians; ratio: dynamic over the better of plain and static in the same run.",
        "",
    ]
    for prompt, output in shapes(rows):
        mine = [r for r in rows if (r["prompt_tokens"], r["output_tokens"]) == (prompt, output)]
        workers = [w for w in WORKERS.values() if any(r["worker"] == w for r in mine)]
        heads = [f"{c}" for w in workers for c in (f"{w} static", "dynamic", "ratio")]
        lines += [
            f"{prompt} tokens in, {output} out:",
            "",
            "| requests | plain | " + " | ".join(heads) + " |",
        ]
        lines.append("| ---: |" + " ---: |" * (1 + len(heads)))
        for c in sorted({r["concurrency"] for r in mine}):
            at = {r["worker"]: r for r in mine if r["concurrency"] == c}
            cells = [f"{next(iter(at.values()))['plain']:.0f}"]
            for w in workers:
                r = at.get(w)
                cells += (
                    [f"{r['static']:.0f}", f"{r['dynamic']:.0f}", f"**{r['ratio']:.2f}**"]
                    if r
                    else ["", "", ""]
                )
            lines.append(f"| {c} | " + " | ".join(cells) + " |")
        lines.append("")
    name = result_name(result)
    if rows:
        lines += [f"![tokens per second over the plain server's](benchmarks/results/{name}.png)", ""]
    lines += [
        f"Ranges, mixed load, returns and the rest: [all tables](benchmarks/results/{name}.md).",
    ]
    return "\n".join(lines)


def put_into_readme(text: str, table: str) -> str:
    """The README's text with the part between the markers replaced.

    Raises:
        ValueError: the markers are not there, once each and in order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the README needs {BEGIN} and {END}, once each, in this order")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    return f"{head}{BEGIN}\n{table.strip()}\n{END}{tail}"


def show(result: Mapping[str, Any]) -> None:
    """Print every part that was measured."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(
        f"{result['release']} on {result['gpu']}, {result['date']}: {result['model']}", highlight=False
    )
    for part in PARTS:
        rows = result[part]
        if not rows:
            continue
        columns = list(dict.fromkeys(k for r in rows for k in r if k != "step_ms"))
        table = Table(*columns, title=part)
        for row in rows:
            table.add_row(*("" if row.get(c) is None else str(row[c]) for c in columns))
        console.print(table)
    for row in result["returns"]:
        for kind, s in row["step_ms"].items():
            numbers = {k: v if v is None else round(v, 2) for k, v in s.items()}
            console.print(f"{row['experiment']} {row['server']} step {kind}: {numbers}", highlight=False)
    if result["suggested_thresholds"]:
        console.print(f"crossover suggests thresholds: {result['suggested_thresholds']}", highlight=False)
    for error in result["errors"]:
        console.print(f"problem: {error.splitlines()[0]}", style="red", highlight=False, markup=False)


def plot(result: Mapping[str, Any], path: Path) -> None:
    """tok/s over the plain server's by concurrency: a panel for each worker and length."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = result["levels"]
    panels = [(w, s) for s in shapes(rows) for w in WORKERS.values() if any(r["worker"] == w for r in rows)]
    columns = len({w for w, _ in panels})
    lines = len(panels) // columns
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(5.5 * columns, 3.6 * lines), squeeze=False, sharey=True
    )
    for axis, (worker, shape) in zip(axes.flat, panels, strict=True):
        mine = [
            r for r in rows if r["worker"] == worker and (r["prompt_tokens"], r["output_tokens"]) == shape
        ]
        if not mine:
            axis.set_visible(False)
            continue
        mine.sort(key=lambda r: r["concurrency"])
        x = [r["concurrency"] for r in mine]
        axis.axhline(1, color="0.5", label="plain")
        for role, style in (("static", "C1o--"), ("dynamic", "C0o-")):
            axis.plot(x, [r[role] / r["plain"] for r in mine], style, label=role)
        if mine[0]["threshold"]:
            axis.axvline(
                mine[0]["threshold"], color="C2", linestyle=":", label=f"threshold {mine[0]['threshold']}"
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks(x, [str(c) for c in x])
        axis.set_title(f"{worker}, {shape[0]} in, {shape[1]} out")
        axis.set_xlabel("concurrent requests")
        axis.set_ylabel("tok/s over plain")
        axis.legend()
    figure.suptitle(f"{result['release']}, {result['gpu']}, {result['date']}")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run.py report", description=__doc__)
    parser.add_argument("piece", type=Path, nargs="+", help="pieces that `run` wrote")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result and the plot")
    parser.add_argument("--readme", type=Path, help="put the table between the markers of this file")
    parser.add_argument("--dry-run", action="store_true", help="only print")
    args = parser.parse_args(argv)
    try:
        result = merge(load_pieces(args.piece))
        readme = put_into_readme(args.readme.read_text("utf-8"), markdown(result)) if args.readme else None
    except (OSError, ValueError, KeyError) as exc:
        parser.exit(1, f"report: {type(exc).__name__}: {exc}\n")
    show(result)
    if args.dry_run:
        return 0
    args.results.mkdir(parents=True, exist_ok=True)
    path = args.results / f"{result_name(result)}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(page(result), encoding="utf-8")
    print(f"wrote {path} and its tables in {path.with_suffix('.md').name}")
    if result["levels"]:
        plot(result, path.with_suffix(".png"))
        print(f"wrote {path.with_suffix('.png')}")
    if readme is not None:
        args.readme.write_text(readme, encoding="utf-8")
        print(f"wrote the table into {args.readme}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
