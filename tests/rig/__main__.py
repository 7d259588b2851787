"""Command line of the rig: `python -m tests.rig --help`."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from pathlib import Path

from . import environment
from .prepare import CannotPrepare, prepare
from .server import Nursery, Spec, serve


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.rig", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare", help="make the environment, fetch the base, build the distribution")
    start = verbs.add_parser("serve", help="run one server in the foreground, for looking around by hand")
    start.add_argument("worker", choices=["plain", "v1", "v2"])
    start.add_argument("--algorithm", choices=["EAGLE", "EAGLE3"], default="EAGLE3")
    start.add_argument("--draft", choices=["good", "rand"], default="good")
    start.add_argument("--threshold", type=int)
    start.add_argument("--tree", choices=["dist", "base"], default="dist")
    start.add_argument("flags", nargs="*", help="more of SGLang's own flags, after --")
    return top


def _serve(chosen: argparse.Namespace) -> None:
    spec = Spec(
        chosen.worker,
        chosen.algorithm,
        chosen.draft,
        threshold=chosen.threshold,
        flags=tuple(chosen.flags),
        tree=chosen.tree,
    )
    nursery = Nursery(environment.tree(spec.tree))
    try:
        with tempfile.TemporaryDirectory() as folder, serve(nursery, spec, Path(folder)) as server:
            url = f"http://127.0.0.1:{server.client.port}"
            body = '{"text": "t5 t77", "sampling_params": {"temperature": 0}}'
            print(f"{url}\nlog: {server.log}")
            print(f"curl {url}/generate -H 'Content-Type: application/json' -d {body!r}")
            print(f"started as: sglang.launch_server {shlex.join(spec.argv(server.client.port))}")
            while server.status() is None:
                time.sleep(0.5)
            print(server.tail())
    except KeyboardInterrupt:
        pass
    finally:
        nursery.close()


def main() -> None:
    """Do what the command line says."""
    chosen = parser().parse_args()
    if chosen.verb == "prepare":
        try:
            prepare(lambda text: print(text, flush=True))
        except CannotPrepare as exc:
            sys.exit(str(exc))
        return
    if reason := environment.why_not():
        sys.exit(reason)
    _serve(chosen)


if __name__ == "__main__":
    main()
