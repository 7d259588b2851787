"""Pieces of runs -> one result: medians over repetitions, ratios, spreads. Pure; tok/s and ms throughout."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import rows
from benchmarks.rows import Piece, blocks_of, column, rounded
from benchmarks.stats import median

WORKERS = {"v1": "EAGLEWorker", "v2": "EAGLEWorkerV2"}
MAIN = ("levels", "long")


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
        **no_overlap(blocks),
    }


def no_overlap(blocks: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The plain server without the overlap scheduler, where it was measured too."""
    seen = column(blocks, "plain-normal", "tok_s")
    return {"plain_no_overlap": rounded(median(seen), 1)} if seen else {}


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


def main_backend(pieces: Sequence[Piece]) -> str | None:
    """The attention backend of the table: that of the newest levels, else of anything."""
    found = [p for p in pieces if p["experiment"] in MAIN] or pieces
    newest = max(found, key=lambda p: p["date"] + p.get("name", ""))
    return str(newest["setup"]["backend"])


def levels(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """The table's rows: loads of `levels` and `long` under one backend."""
    main = main_backend(pieces)
    return level_rows([p for p in pieces if p["experiment"] in MAIN and p["setup"]["backend"] == main])


def backends(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """The same rows under each other attention backend, whatever experiment they come from."""
    main, kinds = main_backend(pieces), (*MAIN, "fa3", "flashinfer")
    others: dict[str, list[Piece]] = defaultdict(list)
    for piece in pieces:
        if piece["experiment"] in kinds and piece["setup"]["backend"] != main:
            others[piece["setup"]["backend"]].append(piece)
    return [{"backend": name, **row} for name, found in sorted(others.items()) for row in level_rows(found)]


def level_rows(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Rows for every worker and load that was measured with plain, static and dynamic in one run.

    Pieces with the same servers and settings are put together; of different ones the newest counts.
    """
    found: dict[tuple[str, tuple[int, int, int]], dict[str, list[tuple[Piece, Mapping[str, Any]]]]] = (
        defaultdict(lambda: defaultdict(list))
    )
    for piece, block in blocks_of(pieces, "level"):
        for worker in WORKERS:
            if {"plain", f"{worker}-static", f"{worker}-lazy"} <= block["servers"].keys():
                shape = (block["prompt"], block["output"], block["concurrency"])
                found[worker, shape][piece["fingerprint"]].append((piece, block))
    found_rows = []
    for (worker, shape), runs in sorted(found.items()):
        newest = max(runs.values(), key=lambda run: max(p["date"] + p.get("name", "") for p, _ in run))
        found_rows.append(level_entry(worker, shape, newest[-1][0], [b for _, b in newest]))
    return found_rows


def crossover(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """static over plain by worker and concurrency, wherever both were measured together."""
    groups: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    main = main_backend(pieces)
    for piece, block in blocks_of(pieces, "level", ("crossover", *MAIN)):
        for worker in WORKERS if piece["setup"]["backend"] == main else ():
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


def merge(pieces: Sequence[Piece]) -> dict[str, Any]:
    """The result of a release on a GPU.

    Raises:
        ValueError: no pieces, or pieces of different GPUs or releases.
    """
    every, pieces = pieces, [p for p in pieces if p["blocks"]]  # no server of the others ever answered
    if not pieces:
        raise ValueError("no pieces to merge, or none with a finished block")
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
        "backends": backends(pieces),
        "crossover": crossing,
        "suggested_thresholds": thresholds(crossing),
        "policies": rows.policies(pieces),
        "returns": rows.returns(pieces),
        "sweep": rows.loads(pieces, "sweep"),
        "hold": rows.loads(pieces, "hold"),
        "identity": rows.identity(pieces),
        "startup": rows.startup(pieces),
        "errors": [e.splitlines()[0] for p in every for e in p["errors"]],
    }


def model_line(pieces: Sequence[Piece]) -> str:
    main = main_backend(pieces)
    for piece in pieces:
        setup = piece["setup"]
        if setup["accept_length"] is not None and setup["backend"] == main:
            length = setup["accept_length"]
            is_near = setup.get("accept_method") == "match-expected"
            draws = f" ({math.floor(length)} or {math.ceil(length)} a step)" if is_near else ""
            return (
                f"Llama-3.1-8B shape, dummy weights, {setup['algorithm']} draft of one layer, "
                f"accepted length simulated at {length}{draws}, {setup['backend']} attention"
            )
    return "tiny distilled target and draft"
