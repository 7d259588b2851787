"""Numbers from samples: percentiles, gaps between chunks, what the server's log says of its decode speed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

DECODE = re.compile(r"Decode batch.*?#running-req: (\d+),.*?gen throughput \(token/s\): ([0-9.]+)")
GRAPH = re.compile(r"(?:cuda|cpu|npu) graph: (True|False)")
SWITCH = re.compile(r"Dynamic speculation: (on|off),")


def percentile(values: Sequence[float], q: float) -> float | None:
    """Linear between neighbours, q in 0..100; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float | None:
    return percentile(values, 50)


def gaps(chunks: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """(milliseconds, tokens) of each chunk of a stream but the first."""
    return [((t1 - t0) * 1e3, n1 - n0) for (t0, n0), (t1, n1) in pairwise(chunks)]


def token_latencies(streams: Iterable[Sequence[tuple[float, int]]]) -> list[float]:
    """Inter-token latency in ms: a chunk of n tokens after a gap of g counts as n tokens of g / n."""
    return [g / n for chunks in streams for g, n in gaps(chunks) if n > 0 for _ in range(n)]


def decode_speeds(lines: Iterable[str], running: int) -> list[float]:
    """tok/s of the log's decode lines at exactly `running` requests.

    The line after a prefill is left out: its interval holds the prefill's time.
    """
    speeds, clean = [], False
    for line in lines:
        if "Prefill batch" in line:
            clean = False
        elif found := DECODE.search(line):
            if clean and int(found[1]) == running:
                speeds.append(float(found[2]))
            clean = True
    return speeds


def graph_share(lines: Iterable[str]) -> float | None:
    """Share of decode lines that report a captured graph; None without decode lines."""
    found = [m[1] == "True" for line in lines if "Decode batch" in line and (m := GRAPH.search(line))]
    return sum(found) / len(found) if found else None


def switch_lines(lines: Iterable[str]) -> int:
    """Switches that the log reports (it is rate limited: the server's own counter is exact)."""
    return sum(1 for line in lines if SWITCH.search(line))


def summary(values: Sequence[float]) -> dict[str, float | int | None]:
    """n, p50, p90, p99, max."""
    quantiles = {f"p{q}": percentile(values, q) for q in (50, 90, 99)}
    return {"n": len(values), **quantiles, "max": max(values) if values else None}


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Index of the first token that differs; None if equal. A prefix differs at its end."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return None if len(one) == len(other) else min(len(one), len(other))
