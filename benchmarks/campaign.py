"""A whole measurement in pieces: which experiments, with which arguments, in which order.

GPU time comes in short stretches. `run.py campaign NAME` goes through the pieces until its deadline; the next
call finds the finished blocks in --done or --out and goes on behind them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """Arguments of one `run.py run`; with fewer than `least_s` seconds left it is not begun."""

    words: str
    least_s: float = 60.0

    @property
    def argv(self) -> list[str]:
        return self.words.split()


# --keep and the same --max-tokens: the levels, the long outputs, the sweep and the hold share their servers
_V2 = "--servers plain,v2-static,v2-lazy --max-tokens 102000 --thresholds v2=24"
_V1 = "--servers plain,v1-static,v1-lazy --max-tokens 102000 --thresholds v1=40"
CAMPAIGNS: dict[str, tuple[Piece, ...]] = {
    # what the README's tables are made of, the most wanted first; about 1,700 s of one H200
    "h200": (
        Piece(f"levels {_V2} --levels 1,2,4,8 --reps 8 --keep"),
        Piece(f"levels {_V2} --reps 4 --keep"),
        Piece(f"long {_V2} --reps 2 --keep"),
        Piece(f"sweep {_V2} --keep", least_s=120),
        Piece("hold --servers v2-lazy --max-tokens 102000 --thresholds v2=24"),
        Piece("return --servers v2-lazy,v2-warm,v2-cold"),
        Piece("identity --servers plain,v2-static,v2-lazy"),
        Piece("switch"),
        Piece("startup --servers v2-static,v2-lazy --reps 1", least_s=120),
        Piece("policies --reps 2", least_s=120),
        Piece("flashinfer --reps 2", least_s=120),
        Piece("fa3 --servers plain,v2-static,v2-lazy --reps 2", least_s=120),
        Piece(f"levels {_V1} --levels 1,8,32,64,128 --reps 2", least_s=120),
    ),
}


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="run.py campaign",
        description="Run the pieces of a whole measurement in turn, until the deadline.",
        epilog="Every other argument goes to each `run.py run` as it is.",
    )
    p.add_argument("name", choices=sorted(CAMPAIGNS))
    p.add_argument("--deadline", type=float, default=540.0, help="seconds from now for all pieces together")
    return p


def main(
    argv: Sequence[str],
    run: Callable[[Sequence[str]], int],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """The worst exit status of the pieces that were begun."""
    args, rest = parser().parse_known_args(argv)
    end = clock() + args.deadline
    worst = 0
    for piece in CAMPAIGNS[args.name]:
        left = end - clock()
        if left < piece.least_s:
            print(f"{piece.words}: not begun, {left:.0f} s left", flush=True)
            continue
        worst = max(worst, run([*piece.argv, *rest, "--deadline", f"{left:.0f}"]))
    return worst
