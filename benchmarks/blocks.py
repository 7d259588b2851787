"""Blocks: the smallest parts of a run. Each visits its servers in turn and returns what it saw as plain data.

A block has an id that names everything that makes it what it is; a finished one is never run again.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from benchmarks import load, stats
from benchmarks.crew import Setup, rotation
from benchmarks.serving import Crew, Running


class Block(Protocol):
    """One resumable piece of work. `estimate_s`: a guess, used to stop before the deadline."""

    @property
    def id(self) -> str: ...
    @property
    def servers(self) -> Sequence[str]: ...
    @property
    def estimate_s(self) -> float: ...
    async def run(self, http: aiohttp.ClientSession, crew: Crew, setup: Setup) -> dict[str, Any]: ...


async def visit(
    http: aiohttp.ClientSession, member: Running, requests: Sequence[load.Request], concurrency: int
) -> dict[str, Any]:
    """One closed loop on one server, with what its log and its state say about it."""
    offset = member.log_size()
    loop = await load.closed_loop(http, member.url, requests, concurrency)
    lines = member.log_since(offset)
    state = (await member.state(http)).get("dynamic_speculation")
    speeds = stats.decode_speeds(lines, concurrency)
    return {
        "tok_s": loop.tok_s,
        "seconds": loop.seconds,
        "requests": len(requests),
        "latency_s": stats.summary([d.end - d.begin for d in loop.done]),
        "decode_tok_s": stats.median(speeds),
        "decode_lines": len(speeds),
        "graph_share": stats.graph_share(lines),
        "accept_length": loop.accept_length,
        "dynamic": state,
    }


LOW = 24  # up to so many requests speculation is mostly on, and the simulated draws are most of the noise
LEAST_TOKENS = 512  # for each running request: some 200 draws a visit, 1.4 % of noise
LEAST_IN_ALL = 1024  # tokens of all requests: one at a time they also jitter by their way in and out


@dataclass(frozen=True)
class Level:
    """The same closed loop on every server, one after the other; repetitions turn the order.

    `waves`: requests one after the other in each place of the loop. Low levels run more, unless `exact`.
    """

    servers: tuple[str, ...]
    concurrency: int
    prompt: int
    output: int
    waves: int
    rep: int
    turn: int
    exact: bool = False

    @property
    def id(self) -> str:
        who = f"-{self.servers[0]}" if len(self.servers) == 1 else ""
        return f"level-{self.prompt}-{self.output}-c{self.concurrency}-r{self.rep}{who}"

    @property
    def requests(self) -> int:
        waves = self.waves
        if not self.exact and self.concurrency <= LOW:
            tokens = max(LEAST_TOKENS, LEAST_IN_ALL / self.concurrency)
            waves = max(waves, math.ceil(tokens / self.output))
        return waves * self.concurrency

    @property
    def estimate_s(self) -> float:
        """From an H200 and an 8B model, the mean of plain, static and dynamic, a tenth more than was seen."""
        prefill = self.concurrency * 0.007
        wave = self.output * (0.0042 + self.concurrency * 7.5e-5) + prefill
        warm_up = prefill + 0.1 if self.rep == 0 else 0.0
        return len(self.servers) * (self.requests / self.concurrency * wave + warm_up)

    async def run(self, http: aiohttp.ClientSession, crew: Crew, setup: Setup) -> dict[str, Any]:
        seed = self.concurrency * 1000 + self.rep
        ids = load.prompts(self.requests, self.prompt, setup.vocabulary, seed)
        requests = [load.Request(i, self.output) for i in ids]
        order = rotation(self.servers, self.turn)
        seen = {}
        for name in order:
            member = crew.members[name]
            if self.rep == 0:
                short = [load.Request(i, 8) for i in ids[: self.concurrency]]
                await load.closed_loop(http, member.url, short, self.concurrency)
            seen[name] = await visit(http, member, requests, self.concurrency)
        shape = {"concurrency": self.concurrency, "prompt": self.prompt, "output": self.output}
        return {"kind": "level", **shape, "rep": self.rep, "order": order, "servers": seen}


def ramp(seconds: float, top: int) -> Any:
    """1, 2, 4 .. top .. 4, 2, 1 requests, each for the same time."""
    up = [1]
    while up[-1] * 2 <= top:
        up.append(up[-1] * 2)
    steps = up + up[-2::-1]
    return lambda t: steps[min(int(t / seconds * len(steps)), len(steps) - 1)]


@dataclass(frozen=True)
class Varying:
    """Requests of mixed length: their number ramps from 1 to `top` and back, or stays at `hold`."""

    servers: tuple[str, ...]
    seconds: float
    top: int
    hold: int | None = None
    rep: int = 0
    prompt: int = 256
    outputs: tuple[int, int] = (64, 256)

    @property
    def id(self) -> str:
        what = f"sweep-{self.top}" if self.hold is None else f"hold-{self.hold}"
        return f"{what}-{self.seconds:.0f}s-{'+'.join(self.servers)}-r{self.rep}"

    @property
    def estimate_s(self) -> float:
        return len(self.servers) * (self.seconds + 6)

    async def run(self, http: aiohttp.ClientSession, crew: Crew, setup: Setup) -> dict[str, Any]:
        hold = self.hold
        target = ramp(self.seconds, self.top) if hold is None else lambda _: hold
        rng = random.Random(7)
        ids = load.prompts(64, self.prompt, setup.vocabulary, 11)
        lengths = [rng.randint(*self.outputs) for _ in range(10_000)]
        seen = {}
        for name in rotation(self.servers, self.rep):
            member = crew.members[name]
            before = (await member.state(http)).get("dynamic_speculation") or {}
            loop = await load.varying_loop(
                http,
                member.url,
                target,
                self.seconds,
                lambda i: load.Request(ids[i % 64], lengths[i % 10_000]),
                stream_every=8,
            )
            after = (await member.state(http)).get("dynamic_speculation") or {}
            streams = [d.chunks for d in loop.done if d.chunks]
            seen[name] = {
                "tok_s": loop.tok_s,
                "seconds": loop.seconds,
                "requests": len(loop.done),
                "itl_ms": stats.summary(stats.token_latencies(streams)),
                "gap_ms": stats.summary([g for s in streams for g, _ in stats.gaps(s)]),
                "latency_s": stats.summary([d.end - d.begin for d in loop.done]),
                "accept_length": loop.accept_length,
                "switches": after["switches"] - before["switches"] if after and before else None,
                "dynamic": after or None,
            }
        return {
            "kind": "sweep" if hold is None else "hold",
            "top": self.top,
            "hold": hold,
            "rep": self.rep,
            "servers": seen,
        }


@dataclass(frozen=True)
class Return:
    """Long requests that a burst pushes past the threshold; when it is over, speculation comes back for them.

    For each long request the tokens written with speculation on are the last ones, so all of them come after
    the return. The reference is the same server, idle, going on with the same text from the same place: a
    draft that was never off. `long` outputs are spread so that some requests end soon after the return.
    """

    servers: tuple[str, ...]
    threshold: int
    streams: int = 4
    output: int = 240
    burst: int = 96
    rep: int = 0
    prompt: int = 32

    @property
    def id(self) -> str:
        return f"return-n{self.threshold}-{self.streams}x{self.output}-b{self.burst}-r{self.rep}"

    @property
    def estimate_s(self) -> float:
        return len(self.servers) * (self.output * 0.005 + 2)

    async def run(self, http: aiohttp.ClientSession, crew: Crew, setup: Setup) -> dict[str, Any]:
        seen = {}
        for name in rotation(self.servers, self.rep):
            seen[name] = await self.one(http, crew.members[name], setup)
        return {"kind": "return", "rep": self.rep, "threshold": self.threshold, "servers": seen}

    async def one(self, http: aiohttp.ClientSession, member: Running, setup: Setup) -> dict[str, Any]:
        ids = load.prompts(self.streams + self.threshold + 1, self.prompt, setup.vocabulary, 100 + self.rep)
        longs = [
            load.Request(i, self.burst + (self.output - self.burst) * (k + 1) // self.streams)
            for k, i in enumerate(ids[: self.streams])
        ]
        shorts = [load.Request(i, self.burst) for i in ids[self.streams :]]
        # The burst is sent first, so that the long requests never see a step with speculation on before it.
        burst = [asyncio.create_task(load.send(http, member.url, r)) for r in shorts]
        await asyncio.sleep(0.03)
        watched = [asyncio.create_task(load.stream(http, member.url, r)) for r in longs]
        await asyncio.gather(*burst)
        done = list(await asyncio.gather(*watched))
        pairs = []
        for request, answer in zip(longs, done, strict=True):
            steps, accepted = (answer.meta.get(k, 0) for k in ("spec_verify_ct", "spec_accept_token_num"))
            on_tokens = min(steps + accepted, request.tokens - 1)
            if steps == 0:
                continue
            start = request.tokens - on_tokens
            again = load.Request((*request.ids, *answer.output[:start]), on_tokens)
            fresh = await load.send(http, member.url, again)
            pairs.append(
                {
                    "on_tokens": on_tokens,
                    "off_tokens": start,
                    "steps": steps,
                    "accepted": accepted,
                    "fresh_steps": fresh.meta.get("spec_verify_ct", 0),
                    "fresh_accepted": fresh.meta.get("spec_accept_token_num", 0),
                    "same_text": fresh.output == answer.output[start:],
                }
            )
        return {
            "pairs": pairs,
            "gaps": [[(round(g, 2), n) for g, n in stats.gaps(d.chunks)] for d in done],
            "dynamic": (await member.state(http)).get("dynamic_speculation"),
        }


@dataclass(frozen=True)
class Identity:
    """The same greedy prompts on every server at one batch size; the plain server twice."""

    servers: tuple[str, ...]
    concurrency: int
    output: int = 128
    prompt: int = 32
    rep: int = 0

    @property
    def id(self) -> str:
        return f"identity-c{self.concurrency}-{self.output}-r{self.rep}"

    @property
    def estimate_s(self) -> float:
        return (len(self.servers) + 1) * (self.output * 0.006 + 1)

    async def run(self, http: aiohttp.ClientSession, crew: Crew, setup: Setup) -> dict[str, Any]:
        count = max(self.concurrency, 16)
        ids = load.prompts(count, self.prompt, setup.vocabulary, 500 + self.rep)
        requests = [load.Request(i, self.output) for i in ids]
        if "plain" not in crew.members:
            raise load.LoadError("the plain server is missing, and it is the reference")
        texts: dict[str, dict[tuple[int, ...], list[int]]] = {}
        for name in ("plain", *self.servers):
            key = "plain again" if name in texts else name
            texts[key] = await self.texts(http, crew.members[name], requests)
        reference = texts["plain"]
        seen = {}
        for key, outputs in texts.items():
            places = [stats.first_difference(reference[i], outputs[i]) for i in ids]
            differ = [p for p in places if p is not None]
            seen[key] = {"same": len(places) - len(differ), "of": len(places), "first_difference": differ}
        shape = {"concurrency": self.concurrency, "output": self.output, "rep": self.rep}
        return {"kind": "identity", **shape, "servers": seen}

    async def texts(
        self, http: aiohttp.ClientSession, member: Running, requests: Sequence[load.Request]
    ) -> dict[tuple[int, ...], list[int]]:
        gate = asyncio.Semaphore(self.concurrency)

        async def one(request: load.Request) -> tuple[tuple[int, ...], list[int]]:
            async with gate:
                return request.ids, (await load.send(http, member.url, request)).output

        return dict(await asyncio.gather(*(one(r) for r in requests)))
