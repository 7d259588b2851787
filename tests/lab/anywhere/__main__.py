"""Run the matrix of faults, or a soak, on lab hosts: `python -m lab.anywhere matrix --minutes 60`."""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path

from ..lab import Lab
from .campaign import KINDS, Crew, discover, run, say, summary, write
from .cases import Case, matrix
from .play import Outcome

RESULTS = Path(__file__).parents[1] / "results"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m lab.anywhere", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)
    for name, text, minutes in (
        ("matrix", "every action x phase x fault, in an order that covers widely from its start", 600.0),
        ("soak", "faults drawn by chance, over and over, with the operator's promises as they are", 120.0),
    ):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--minutes", type=float, default=minutes)
        verb.add_argument("--seed", type=int, default=1)
        verb.add_argument("--hosts", type=int, default=2)
        verb.add_argument("--only", default="", help="only cases whose id has this text")
        verb.add_argument("--skip", type=int, default=0, help="leave out so many cases from the start")
        verb.add_argument("--haste", type=float, default=0.2 if name == "matrix" else 1.0)
        verb.add_argument(
            "--out", type=Path, default=RESULTS / f"{'anywhere' if name == 'matrix' else 'soak'}.json"
        )
        verb.add_argument("--notes", type=Path, help="a folder for what helps to find causes")
    return top


def main() -> None:
    chosen = parser().parse_args()
    lab = Lab(f"any{os.getpid() % 100000}")
    begin = time.time()
    try:
        lab.up(chosen.hosts, disk="2G", owner=os.getpid())
        with tempfile.TemporaryDirectory() as folder:
            crews = [
                Crew(lab, f"h{n + 1}", KINDS[n % len(KINDS)], Path(folder), chosen.haste)
                for n in range(chosen.hosts)
            ]
            with lab.inside():
                places = discover(crews[0])
                ailments = list(crews[0].ailments("full").values())
            for crew in crews:
                crew.switching = frozenset(p.kind for p in places if p.verb == "rollback")
                for stage in crew.stages.values():
                    stage.switching = crew.switching
            cases = [c for c in matrix(places, ailments, chosen.seed) if chosen.only in c.id][chosen.skip :]
            planned = len(cases)
            if chosen.verb == "soak":
                cases = random.Random(chosen.seed).choices(cases, k=100_000)
            done: list[Outcome] = []

            def tell(outcome: Outcome) -> None:
                say(outcome)
                done.append(outcome)
                minutes = round((time.time() - begin) / 60, 1)
                more = {"what": chosen.verb, "seed": chosen.seed, "minutes": minutes, "hosts": chosen.hosts,
                        "promises shortened to": chosen.haste}  # fmt: skip
                write(chosen.out, summary(places, planned, done, **more))
                if chosen.notes and outcome.wrong:
                    chosen.notes.mkdir(parents=True, exist_ok=True)
                    (chosen.notes / f"{len(done):04d}.json").write_text(
                        json.dumps(outcome.as_dict(), indent=1)
                    )

            run(crews, cases, until=time.monotonic() + chosen.minutes * 60, tell=tell)
    finally:
        lab.down()
    if any(outcome.wrong for outcome in done):
        raise SystemExit(1)


__all__ = ["Case", "main"]

if __name__ == "__main__":
    main()
