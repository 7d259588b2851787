"""Measure a release on one GPU.

run.py pack OUT --sglang WHEEL          archives for a GPU machine without internet
run.py run EXPERIMENT.. --out DIR       start the servers, run what is not done yet, until the deadline
run.py campaign NAME --out DIR          a whole measurement, piece after piece; call it again to go on
run.py report PIECE..                   merge pieces: the table, the plot, results/, the README's table
run.py list                             the experiments
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SCHEMA = 1


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(x) for x in text.split(",") if x)


def names(text: str) -> tuple[str, ...]:
    return tuple(x for x in text.split(",") if x)


def thresholds(text: str) -> dict[str, int]:
    return {worker: int(n) for worker, _, n in (item.partition("=") for item in text.split(","))}


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="run.py run", description="Run experiments; a finished block is never repeated."
    )
    p.add_argument("experiment", nargs="+")
    p.add_argument("--out", type=Path, required=True, help="folder for this piece's JSON files")
    p.add_argument("--work", type=Path, required=True, help="folder for logs and running servers")
    p.add_argument("--models", type=Path, required=True, help="folder for the 8B shape (written here)")
    p.add_argument("--tiny", type=Path, help="folder with the distilled models (widen.py)")
    p.add_argument(
        "--done", type=Path, action="append", default=[], help="folder with pieces of earlier runs"
    )
    p.add_argument(
        "--deadline", type=float, default=540.0, help="seconds from now; no block starts that would pass it"
    )
    p.add_argument("--start-limit", type=float, default=240.0, help="seconds a server may take to answer")
    p.add_argument("--thresholds", type=thresholds, help="v1=16,v2=32")
    p.add_argument("--servers", type=names, default=())
    p.add_argument("--levels", type=numbers, default=())
    p.add_argument("--reps", type=int, default=0)
    p.add_argument("--waves", type=int, default=0)
    p.add_argument("--output", type=int, default=0, help="tokens a request writes")
    p.add_argument("--seconds", type=float, default=0.0)
    p.add_argument("--max-tokens", type=int, help="KV slots of each server")
    p.add_argument("--max-running", type=int)
    p.add_argument("--backend", help="attention backend")
    p.add_argument("--algorithm", help="EAGLE3, or EAGLE with the tiny models")
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--extra", default="", help="more arguments for every server")
    p.add_argument("--dynamic-extra", default="", help="more arguments for the switched servers")
    p.add_argument("--python", default=sys.executable, help="runs the servers")
    p.add_argument("--site", type=Path, help="unpacked archives; the servers import from there first")
    p.add_argument("--release", help="name of what is measured, if the server does not say it")
    p.add_argument("--keep", action="store_true", help="leave the servers running for the next piece")
    p.add_argument("--first-port", type=int, default=30100)
    return p


def make_setup(args: argparse.Namespace, experiment: Any) -> Any:
    from benchmarks import crew

    # Without a GPU the 8B shape takes 32 GB a server: there every experiment runs the tiny models.
    is_tiny = experiment.model == "tiny" or args.device == "cpu"
    if is_tiny and not args.tiny:
        raise SystemExit(f"{experiment.name} needs --tiny DIR")
    setup = crew.tiny(args.tiny) if is_tiny else crew.eight_b(args.models)
    setup = experiment.setup(setup)
    changes: dict[str, Any] = {
        "thresholds": args.thresholds,
        "max_tokens": args.max_tokens,
        "max_running": args.max_running,
        "backend": args.backend,
        "algorithm": args.algorithm,
    }
    if args.algorithm and is_tiny:
        changes["draft"] = str(args.tiny / f"{args.algorithm.lower()}_good")
    changes = {k: v for k, v in changes.items() if v}
    extra = {"extra": tuple(args.extra.split()), "dynamic_extra": tuple(args.dynamic_extra.split())}
    return replace(setup, device=args.device, **extra, **changes)


def fingerprint(setup: Any, servers: Sequence[str]) -> str:
    """What makes two pieces parts of the same measurement."""
    text = json.dumps([asdict(setup), list(servers)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def done_blocks(folders: Sequence[Path], experiment: str, mark: str) -> dict[str, list[set[str]]]:
    """By id of a finished block, the servers that each run of it saw."""
    found: dict[str, list[set[str]]] = {}
    for folder in folders:
        for path in folder.glob(f"{experiment}-*.json"):
            piece = json.loads(path.read_text())
            if piece.get("fingerprint") == mark:
                for block in piece["blocks"]:
                    found.setdefault(block["id"], []).append(set(block["servers"]))
    return found


def save(path: Path, piece: Mapping[str, Any]) -> None:
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(piece))
    draft.replace(path)


async def run_experiment(args: argparse.Namespace, name: str, end: float) -> int:
    from benchmarks import crew as crews
    from benchmarks import load, session
    from benchmarks.experiments import ALL, Options
    from benchmarks.gpu import gpu_facts

    if name not in ALL:
        raise SystemExit(f"no experiment is called {name}: {', '.join(ALL)}")
    experiment = ALL[name]
    setup = make_setup(args, experiment)
    crews.write_shapes(args.models)
    servers = args.servers or experiment.servers
    options = Options(servers, args.levels, args.reps, args.output, args.seconds, args.waves)
    mark = fingerprint(setup, servers)
    blocks = experiment.blocks(servers, setup, options)
    done = done_blocks([*args.done, args.out], name, mark)
    # one that a server missed, because it had not started or had died, is done again
    left = [b for b in blocks if not any(set(b.servers) <= seen for seen in done.get(b.id, ()))]
    print(
        f"{name}: {len(left)} of {len(blocks)} blocks to do, {end - time.monotonic():.0f} s left", flush=True
    )
    now = datetime.datetime.now(datetime.timezone.utc)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{name}-{now:%Y%m%dT%H%M%S%f}.json"
    piece: dict[str, Any] = {
        "schema": SCHEMA,
        "experiment": name,
        "fingerprint": mark,
        "date": f"{now:%Y-%m-%d}",
        "release": args.release,
        **gpu_facts(),
        "setup": asdict(setup),
        "servers": {},
        "errors": [],
        "blocks": [],
    }
    piece_run = session.Session(args, setup, piece, lambda: save(path, piece), end)
    async with load.open_http() as http:
        if experiment.alone:
            await piece_run.run_alone(http, left)
        else:
            await piece_run.run_together(http, servers, left)
    if left:
        save(path, piece)
        print(f"{name}: {len(piece['blocks'])} blocks written to {path}", flush=True)
    return 0 if piece["blocks"] or not left else 1


def run(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    end = time.monotonic() + args.deadline
    code = 0
    for name in args.experiment:
        code |= asyncio.run(run_experiment(args, name, end))
    return code


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    verb, rest = (argv[0], argv[1:]) if argv else ("", [])
    if verb == "run":
        return run(rest)
    if verb == "campaign":
        from benchmarks import campaign

        return campaign.main(rest, run)
    if verb == "pack":
        from benchmarks import pack

        return pack.main(rest)
    if verb == "report":
        from benchmarks import report

        return report.main(rest)
    if verb == "list":
        from benchmarks.experiments import ALL

        for e in ALL.values():
            print(f"{e.name:11} {e.model:4}  {e.what}")
        return 0
    print(__doc__, file=sys.stderr)
    return 0 if verb in ("-h", "--help", "help") else 2


if __name__ == "__main__":
    raise SystemExit(main())
