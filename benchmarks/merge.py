"""Pieces of runs -> one result: medians over repetitions, ratios, spreads. Pure; tok/s and ms throughout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.stats import median, summary

Piece = Mapping[str, Any]
WORKERS = {"v1": "EAGLEWorker", "v2": "EAGLEWorkerV2"}


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


def level_entry(
    worker: str, shape: tuple[int, int, int], piece: Piece, blocks: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One row of the table. `ratio` is of the medians shown; low and high are of the single repetitions."""
    prompt, output, concurrency = shape
    static, dynamic = f"{worker}-static", f"{worker}-lazy"
    value = {
        role: median(column(blocks, name, "tok_s"))
        for role, name in (("plain", "plain"), ("static", static), ("dynamic", dynamic))
    }
    single = [
        b["servers"][dynamic]["tok_s"] / max(b["servers"]["plain"]["tok_s"], b["servers"][static]["tok_s"])
        for b in blocks
    ]
    threshold = piece["setup"]["thresholds"].get(worker)
    shown = {role: rounded(x, 1) for role, x in value.items()}
    return {
        "worker": WORKERS[worker],
        "concurrency": concurrency,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "threshold": threshold,
        **shown,
        "ratio": rounded(shown["dynamic"] / max(shown["plain"], shown["static"])),  # type: ignore[type-var, operator]
        "ratio_low": rounded(min(single)),
        "ratio_high": rounded(max(single)),
        "repetitions": len(blocks),
        **off_speed(blocks, dynamic, concurrency, threshold),
    }


def off_speed(
    blocks: Sequence[Mapping[str, Any]], dynamic: str, concurrency: int, threshold: int | None
) -> dict[str, float | None]:
    """Decode speed in the logs while off, beside the plain server's; empty at or below the threshold."""
    if threshold is None or concurrency <= threshold:
        return {}
    plain, ours = (median(column(blocks, n, "decode_tok_s")) for n in ("plain", dynamic))
    if plain is None or ours is None:
        return {}
    return {
        "decode_plain": rounded(plain, 1),
        "decode_dynamic": rounded(ours, 1),
        "decode_ratio": rounded(ours / plain),
        "decode_graphs": median(column(blocks, dynamic, "graph_share")),
    }


def levels(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Rows for every worker and load that was measured with plain, static and dynamic in one run.

    Pieces with the same servers and settings are put together; of different ones the newest counts.
    """
    found: dict[tuple[str, tuple[int, int, int]], dict[str, list[tuple[Piece, Mapping[str, Any]]]]] = (
        defaultdict(lambda: defaultdict(list))
    )
    for piece, block in blocks_of(pieces, "level", ("levels", "long")):
        for worker in WORKERS:
            if {"plain", f"{worker}-static", f"{worker}-lazy"} <= block["servers"].keys():
                shape = (block["prompt"], block["output"], block["concurrency"])
                found[worker, shape][piece["fingerprint"]].append((piece, block))
    rows = []
    for (worker, shape), runs in sorted(found.items()):
        newest = max(runs.values(), key=lambda run: max(p["date"] + p.get("name", "") for p, _ in run))
        rows.append(level_entry(worker, shape, newest[-1][0], [b for _, b in newest]))
    return rows


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


def crossover(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """static over plain by worker and concurrency, wherever both were measured together."""
    groups: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for _, block in blocks_of(pieces, "level", ("crossover", "levels", "long")):
        for worker in WORKERS:
            seen = block["servers"]
            if {"plain", f"{worker}-static"} <= seen.keys():
                ratio = seen[f"{worker}-static"]["tok_s"] / seen["plain"]["tok_s"]
                groups[worker, block["output"], block["concurrency"]].append(ratio)
    return [
        {
            "worker": WORKERS[w],
            "output_tokens": o,
            "concurrency": c,
            "static_over_plain": rounded(median(r)),
            "n": len(r),
        }
        for (w, o, c), r in sorted(groups.items())
    ]


def thresholds(rows: Sequence[Mapping[str, Any]], output: int = 128) -> dict[str, int]:
    """By worker, the largest measured concurrency up to which static is at least as fast as plain."""
    best: dict[str, int] = {}
    for worker in WORKERS.values():
        for row in sorted(rows, key=lambda r: r["concurrency"]):
            if row["worker"] == worker and row["output_tokens"] == output:
                if row["static_over_plain"] < 1:
                    break
                best[worker] = row["concurrency"]
    return best


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


def merge(pieces: Sequence[Piece]) -> dict[str, Any]:
    """The result of a release on a GPU.

    Raises:
        ValueError: no pieces, or pieces of different GPUs or releases.
    """
    if not pieces:
        raise ValueError("no pieces to merge")
    for field in ("release", "gpu"):
        values = {p.get(field) for p in pieces}
        if len(values) > 1:
            raise ValueError(f"the pieces are of different {field}s: {', '.join(sorted(map(str, values)))}")
    crossing = crossover(pieces)
    return {
        "release": pieces[0]["release"],
        "gpu": pieces[0].get("gpu"),
        "driver": pieces[0].get("driver"),
        "date": max(p["date"] for p in pieces),
        "model": model_line(pieces),
        "levels": levels(pieces),
        "crossover": crossing,
        "suggested_thresholds": thresholds(crossing),
        "policies": policies(pieces),
        "returns": returns(pieces),
        "sweep": loads(pieces, "sweep"),
        "hold": loads(pieces, "hold"),
        "identity": identity(pieces),
        "startup": startup(pieces),
        "errors": [e for p in pieces for e in p["errors"]],
    }


def model_line(pieces: Sequence[Piece]) -> str:
    for piece in pieces:
        setup = piece["setup"]
        if setup["accept_length"] is not None:
            return (
                f"Llama-3.1-8B shape, dummy weights, {setup['algorithm']} draft of one layer, "
                f"accepted length simulated at {setup['accept_length']}, {setup['backend']} attention"
            )
    return "tiny distilled target and draft"
