"""A whole measurement in pieces: which experiments, with which arguments, in which order.

GPU time comes in short stretches. `run.py campaign NAME` goes through the pieces until its deadline; the next
call finds the finished blocks in --done or --out and goes on behind them. Servers of a piece with --keep are
still there for the next one, or for the next call: `h200-v1`, `h200-v2` and `h200-rest` follow each other.
"""

from __future__ import annotations

import argparse
import time
import traceback
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


# The same servers and --max-tokens: levels, long outputs, hold and sweep share what was started. The plain
# server of both workers' pieces is the same one.
_V1 = "--servers plain,v1-static,v1-lazy --max-tokens 102000 --thresholds v1=24 --keep"
_V2 = "--servers plain,v2-static,v2-lazy --max-tokens 102000 --thresholds v2=24 --keep"
_OTHER_BACKEND = "--servers plain,v2-static,v2-lazy --thresholds v2=24 --reps 2"

# A piece comes twice where more repetitions are worth less than what stands between.
_FIRST_WORKER = (
    Piece(f"levels {_V1} --reps 3"),
    Piece(f"long {_V1} --levels 1,8,16,24,32,64,128 --reps 1"),
    Piece("return --servers v1-lazy --keep", least_s=100),
    Piece("identity --keep", least_s=90),
    Piece(f"long {_V1} --levels 1,8,16,24,32,64,128 --reps 2"),
)
_SECOND_WORKER = (
    Piece(f"levels {_V2} --reps 3"),
    Piece(f"long {_V2} --reps 1"),
    Piece(f"hold {_V2} --levels 24,25"),
    Piece(f"sweep {_V2} --seconds 40", least_s=135),
    Piece(f"long {_V2} --reps 2"),
)
_BACKENDS = (
    Piece(f"fa3 {_OTHER_BACKEND}", least_s=120),
    Piece("startup --servers v2-static,v2-lazy,v1-static,v1-lazy --reps 1", least_s=120),
    Piece(f"flashinfer {_OTHER_BACKEND}", least_s=240),  # compiles its kernels when it first starts
)
_REST = (
    Piece(f"sweep {_V2} --seconds 30", least_s=105),
    Piece("return --servers v1-lazy,v2-lazy,v2-warm,v2-cold --keep", least_s=100),
    *_BACKENDS,
    Piece("policies --reps 2 --keep", least_s=120),
    Piece("switch --max-tokens 70000 --reps 4", least_s=120),
    Piece("sweep --servers v1-lazy --max-tokens 102000 --thresholds v1=24 --seconds 40", least_s=120),
)
CAMPAIGNS: dict[str, tuple[Piece, ...]] = {
    # what the README's tables are made of, the most wanted first
    "h200-v1": _FIRST_WORKER,
    "h200-v2": _SECOND_WORKER,
    "h200-rest": _REST,
    # what needs servers of its own: other attention backends, starts one at a time
    "h200-backends": _BACKENDS,
    "h200": (*_FIRST_WORKER, *_SECOND_WORKER, *_REST),
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
        try:
            worst = max(worst, run([*piece.argv, *rest, "--deadline", f"{left:.0f}"]))
        except Exception:  # the pieces behind it have nothing to do with it
            traceback.print_exc()
            worst = 1
    return worst
