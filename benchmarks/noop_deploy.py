"""What a deploy with nothing to do costs: wall time, CPU time and round trips for each host.

noop_deploy.py [--hosts 3] [--rounds 5]     on lab hosts (tests/lab), which it starts and removes; needs root

Round trips are what the tool can answer for. Wall time also tells how busy the machine was, so the load and
the CPU seconds of the operator's process stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    ROOT = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from lab import image
from lab.deploying import Site
from lab.lab import Lab, of_process

from specctl.config.inventory import load_inventory
from specctl.config.model import HostConfig
from specctl.host.connect import connect
from specctl.host.protocol import Host
from specctl.release.engine import Engine
from specctl.release.makers import deploy_maker
from specctl.release.source import SourceFolder
from specctl.release.wiring import real_ports

VERBS = ("run", "stream", "put", "write", "read", "script")


class Counted:
    """A host that counts what it is asked."""

    def __init__(self, host: Host, calls: Counter[str], guard: threading.Lock) -> None:
        self.name, self._host, self._calls, self._guard = host.name, host, calls, guard

    def __getattr__(self, verb: str) -> Any:
        if verb in VERBS:
            with self._guard:
                self._calls[verb] += 1
        return getattr(self._host, verb)


def trips(site: Site, distribution: Path) -> dict[str, float]:
    """Calls of the host port for one host of the site, by verb: what the plan of a no-op deploy asks."""
    calls: Counter[str] = Counter()
    guard = threading.Lock()

    def counted(config: HostConfig) -> Host:
        return Counted(connect(config), calls, guard)  # type: ignore[return-value]

    ports = replace(real_ports(), connect=counted)
    engine, make = Engine(ports), deploy_maker(ports, SourceFolder(distribution))
    hosts = load_inventory(site.inventory, environ={}).hosts
    for config in hosts:
        if engine.plan(config, make).changes:
            raise SystemExit(f"{config.name} has something to do: that is not what is measured here")
    return {verb: number / len(hosts) for verb, number in sorted(calls.items())}


def rounds(site: Site, number: int) -> list[dict[str, float]]:
    """Deploys as processes of their own: seconds of wall and of CPU (user and system) each."""
    found = []
    for _ in range(number):
        used, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        site.deploy(1)
        wall, now = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        found.append({"wall_s": wall, "cpu_s": cpu})
    return found


def measure(lab: Lab, folder: Path, hosts: int, number: int) -> dict[str, Any]:
    """Deploy once, then measure deploys that have nothing to do."""
    site = Site(lab, folder, "noop")
    for name in [f"h{n}" for n in range(1, hosts + 1)]:
        site.host(name, sudo=True)
    site.deploy(1)
    load = os.getloadavg()[0]
    timed = rounds(site, number)
    per_host = trips(site, site.dist(1))
    return {
        "hosts": hosts,
        "rounds": number,
        "load before": round(load, 2),
        "processors": os.cpu_count(),
        "wall_s": {"median": middle(timed, "wall_s"), "best": min(t["wall_s"] for t in timed)},
        "cpu_s": {"median": middle(timed, "cpu_s"), "best": min(t["cpu_s"] for t in timed)},
        "round trips per host": {**per_host, "all": sum(per_host.values())},
    }


def middle(rows: list[dict[str, float]], name: str) -> float:
    return statistics.median(row[name] for row in rows)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    reason = image.why_not()
    if reason:
        sys.exit(reason)
    lab = of_process()
    try:
        lab.up(chosen.hosts, owner=os.getpid())
        with lab.inside(), tempfile.TemporaryDirectory() as folder:
            found = measure(lab, Path(folder), chosen.hosts, chosen.rounds)
    finally:
        lab.down()
    print(json.dumps(found, indent=1, default=lambda value: round(value, 3)))


if __name__ == "__main__":
    main()
