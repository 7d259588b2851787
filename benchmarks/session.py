"""One piece at work: start its servers, run its blocks until the deadline, keep what was seen after each."""

from __future__ import annotations

import argparse
import os
import re
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import crew as crews
from benchmarks.blocks import Block
from benchmarks.gpu import gpu_facts
from benchmarks.serving import Crew, ServerError

FACTS = {
    "avail_mem_gb": re.compile(r"avail mem=([0-9.]+) GB"),
    "graph_s": re.compile(r"Capture .*?graph.*? end\. Time elapsed: ([0-9.]+) s"),
    "graph_gb": re.compile(r"Capture .*?graph.*? end\. .*?mem usage=([0-9.]+) GB"),
}
RETRY_S = 150.0  # with less time left a server that failed is not started a second time
MARKER = "Dynamic speculation disable enabled"


def log_facts(lines: Sequence[str]) -> dict[str, Any]:
    """The marker line, and the numbers that a server logs while it starts (all of each, in order)."""
    found: dict[str, Any] = {k: [float(m[1]) for x in lines if (m := p.search(x))] for k, p in FACTS.items()}
    found["marker"] = next((x for x in lines if MARKER in x), None)
    return found


def site_env(site: Path) -> dict[str, str]:
    """Environment of a server that imports from an unpacked site."""
    paths = [str(site / "native"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"PYTHONPATH": str(site), "LD_LIBRARY_PATH": ":".join(p for p in paths if p)}


class Session:
    """Runs blocks; `piece` is the record that grows, `keep` writes it down."""

    def __init__(
        self,
        args: argparse.Namespace,
        setup: crews.Setup,
        piece: dict[str, Any],
        keep: Callable[[], None],
        end: float,
    ) -> None:
        self.args, self.setup, self.piece, self.keep, self.end = args, setup, piece, keep, end
        self.crew = Crew(args.work, args.python, site_env(args.site) if args.site else {})

    def left(self) -> float:
        return self.end - time.monotonic()

    async def start(self, http: aiohttp.ClientSession, servers: Sequence[str]) -> None:
        specs = [crews.server(n, self.setup) for n in servers]
        limit = min(self.args.start_limit, max(5.0, self.left()))
        failed = await self.crew.start(specs, limit, self.args.first_port)
        for name, error in failed.items():
            self.problem(f"{name} did not start", error)
        if failed and self.left() > RETRY_S:
            failed = await self.crew.start(specs, min(limit, self.left()), self.args.first_port)
            for name, error in failed.items():
                self.problem(f"{name} did not start again", error)
        for name, member in self.crew.members.items():
            info = await member.ask(http, "/server_info")
            self.piece["release"] = self.piece["release"] or info["version"]
            self.piece["servers"][name] = {
                "args": list(member.spec.args),
                "env": dict(member.spec.env),
                "started_s": member.started_s,
                "memory": info["internal_states"][0].get("memory_usage"),
                **log_facts(member.log_since(0)),
            }
        self.keep()

    def problem(self, what: str, detail: str) -> None:
        print(f"PROBLEM {what}: {detail}", flush=True)
        self.piece["errors"].append(f"{what}: {detail}"[:4000])

    async def run_together(
        self, http: aiohttp.ClientSession, servers: Sequence[str], blocks: Sequence[Block]
    ) -> None:
        if not blocks:
            if not self.args.keep:
                self.crew.find([])
                self.crew.remember()
            return
        try:
            await self.start(http, servers)
            took: dict[str, float] = {}
            for block in blocks:
                alive = tuple(n for n in block.servers if n in self.crew.members)
                if not alive:
                    continue
                kind = block.id.rpartition("-r")[0]
                if took.get(kind, block.estimate_s) > self.left() - 3:
                    print(f"{block.id}: no time left for it ({self.left():.0f} s)", flush=True)
                    continue
                took[kind] = await self.run_block(http, replace(block, servers=alive))  # type: ignore[type-var]
        finally:
            if not self.args.keep:
                self.crew.stop()

    async def run_alone(self, http: aiohttp.ClientSession, blocks: Sequence[Block]) -> None:
        """One server at a time, on an empty GPU."""
        if blocks:
            self.crew.find([])
        for block in blocks:
            if self.left() < 90:
                break
            before = gpu_facts().get("used_mib")
            try:
                await self.start(http, block.servers)
                if block.servers[0] not in self.crew.members:
                    continue
                ready = gpu_facts().get("used_mib")
                await self.run_block(http, block)
                if self.piece["blocks"]:
                    self.piece["blocks"][-1].update(
                        started_s=self.piece["servers"][block.servers[0]]["started_s"],
                        used_mib_before=before,
                        used_mib_ready=ready,
                        used_mib_after=gpu_facts().get("used_mib"),
                    )
            finally:
                self.crew.stop()
            self.keep()

    async def run_block(self, http: aiohttp.ClientSession, block: Block) -> float:
        """Seconds it took. A failure is recorded; servers that died are left out from then on."""
        begin = time.monotonic()
        try:
            seen = await block.run(http, self.crew, self.setup)
        except Exception as exc:  # GPU time cannot be asked for again: whatever it is, the other blocks go on
            where = "".join(traceback.format_exception(exc))[-2000:]
            self.problem(f"{block.id} failed", f"{type(exc).__name__}: {exc}\n{where}")
            self.drop_dead()
            self.keep()
            return time.monotonic() - begin
        took = time.monotonic() - begin
        self.piece["blocks"].append({"id": block.id, "took_s": round(took, 2), **seen})
        self.keep()
        print(f"{block.id}: {took:.1f} s  {brief(seen['servers'])}", flush=True)
        return took

    def drop_dead(self) -> None:
        for name, member in list(self.crew.members.items()):
            try:
                self.crew.check_one(member)
            except ServerError as exc:
                self.problem(f"{name} is gone", str(exc))
                self.crew.stop([name])


def brief(servers: dict[str, dict[str, Any]]) -> str:
    """One number a server, for the eye."""
    parts = []
    for name, seen in servers.items():
        if "tok_s" in seen:
            switches = "" if seen.get("switches") is None else f" ({seen['switches']} switches)"
            parts.append(f"{name} {seen['tok_s']:.0f}{switches}")
        elif "same" in seen:
            parts.append(f"{name} {seen['same']}/{seen['of']}")
        elif "pairs" in seen:
            parts.append(f"{name} {len(seen['pairs'])} returns")
    return ", ".join(parts)
