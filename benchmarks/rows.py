"""Blocks of all pieces -> rows of the smaller tables: policies, returns, loads, identity, starts. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.stats import median, summary

Piece = Mapping[str, Any]


def blocks_of(
    pieces: Iterable[Piece], kind: str, experiments: Sequence[str] = ()
) -> list[tuple[Piece, Mapping[str, Any]]]:
    return [
        (p, b)
        for p in pieces
        if not experiments or p["experiment"] in experiments
        for b in p["blocks"]
        if b["kind"] == kind
    ]


def column(blocks: Iterable[Mapping[str, Any]], server: str, field: str) -> list[float]:
    found = (b["servers"].get(server, {}).get(field) for b in blocks)
    return [x for x in found if x is not None]


def divide(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def policies(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Each draft policy above the threshold, over the plain server of the same run."""
    groups: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for _, block in blocks_of(pieces, "level", ("policies",)):
        groups[block["output"], block["concurrency"]].append(block)
    rows = []
    for (output, concurrency), blocks in sorted(groups.items()):
        plain, plain_decode = (median(column(blocks, "plain", f)) for f in ("tok_s", "decode_tok_s"))
        for name in sorted({n for b in blocks for n in b["servers"]} - {"plain"}):
            ours = median(column(blocks, name, "tok_s"))
            rows.append(
                {
                    "server": name,
                    "concurrency": concurrency,
                    "output_tokens": output,
                    "tok_s": rounded(ours, 1),
                    "over_plain": rounded(divide(ours, plain)),
                    "decode_over_plain": rounded(
                        divide(median(column(blocks, name, "decode_tok_s")), plain_decode)
                    ),
                }
            )
    return rows


def return_steps(gaps: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """A stream's chunk gaps, sorted into steps while off, the first step after coming back, and later ones.

    A chunk of one token is a step while off, unless speculation was on already; the first larger one is the
    return.
    """
    found: dict[str, list[float]] = {"off": [], "first": [], "on": []}
    back = False
    for gap, tokens in gaps:
        if tokens > 1 and not back:
            back = True
            found["first"].append(gap)
        else:
            found["on" if back else "off"].append(gap)
    return found


def accept(pairs: Sequence[Mapping[str, int]], prefix: str = "") -> float | None:
    steps = sum(p[f"{prefix}steps"] for p in pairs)
    return 1 + sum(p[f"{prefix}accepted"] for p in pairs) / steps if steps else None


def returns(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Accepted length after coming back beside a draft that was never off; cost of the first step back."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for piece, block in blocks_of(pieces, "return"):
        for name, seen in block["servers"].items():
            groups[piece["experiment"], name].append(seen)
    rows = []
    for (experiment, name), runs in sorted(groups.items()):
        pairs = [p for r in runs for p in r["pairs"]]
        early = [p for p in pairs if p["on_tokens"] <= 40]
        steps: dict[str, list[float]] = defaultdict(list)
        for r in runs:
            for gaps in r["gaps"]:
                for kind, values in return_steps(gaps).items():
                    steps[kind] += values
        rows.append(
            {
                "experiment": experiment,
                "server": name,
                "returns": len(pairs),
                "accept_after": rounded(accept(pairs)),
                "accept_never_off": rounded(accept(pairs, "fresh_")),
                "ratio": rounded(divide(accept(pairs), accept(pairs, "fresh_"))),
                "ratio_first_40_tokens": rounded(divide(accept(early), accept(early, "fresh_"))),
                "same_text": f"{sum(p['same_text'] for p in pairs)}/{len(pairs)}",
                "step_ms": {kind: summary(values) for kind, values in steps.items()},
            }
        )
    return rows


def loads(pieces: Sequence[Piece], kind: str) -> list[dict[str, Any]]:
    """Sweeps or holds, one row a server and run."""
    return [
        {
            "server": name,
            "hold": block["hold"],
            "top": block["top"],
            "seconds": rounded(seen["seconds"], 1),
            "tok_s": rounded(seen["tok_s"], 1),
            "itl_p50_ms": rounded(seen["itl_ms"]["p50"], 2),
            "itl_p99_ms": rounded(seen["itl_ms"]["p99"], 2),
            "gap_p99_ms": rounded(seen["gap_ms"]["p99"], 2),
            "gap_max_ms": rounded(seen["gap_ms"]["max"], 2),
            "switches": seen["switches"],
        }
        for _, block in blocks_of(pieces, kind)
        for name, seen in sorted(block["servers"].items())
    ]


def identity(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """How many greedy texts equal the plain server's first run, by batch size."""
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for _, block in blocks_of(pieces, "identity"):
        for name, seen in block["servers"].items():
            groups[block["concurrency"], name].append(seen)
    return [
        {
            "concurrency": c,
            "server": name,
            "same": sum(s["same"] for s in runs),
            "of": sum(s["of"] for s in runs),
            "median_first_difference": median([x for s in runs for x in s["first_difference"]]),
        }
        for (c, name), runs in sorted(groups.items())
        if name != "plain"
    ]


def startup(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Seconds to the first healthy answer and GPU memory of a server alone, medians."""
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for _, block in blocks_of(pieces, "level", ("startup",)):
        groups[next(iter(block["servers"]))].append(block)
    rows = []
    for name, blocks in sorted(groups.items()):
        used = [
            b["used_mib_after"] - b["used_mib_before"] for b in blocks if b.get("used_mib_after") is not None
        ]
        seconds = [b["started_s"] for b in blocks]
        rows.append(
            {
                "server": name,
                "starts": len(blocks),
                "seconds": seconds,
                "median_s": median(seconds),
                "used_mib": median(used),
            }
        )
    return rows
