"""The load: closed loops of requests with token ids, and streams whose every chunk is timed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

REQUEST_LIMIT_S = 180.0


@dataclass(frozen=True)
class Request:
    """One prompt and how many tokens to write; greedy, and never stopped early."""

    ids: tuple[int, ...]
    tokens: int

    def body(self, stream: bool) -> dict[str, object]:
        sampling = {"temperature": 0, "max_new_tokens": self.tokens, "ignore_eos": True}
        return {"input_ids": list(self.ids), "sampling_params": sampling, "stream": stream}


@dataclass
class Done:
    """A finished request. Times: monotonic seconds. `chunks`: (time, tokens so far), of streams only."""

    begin: float
    end: float
    tokens: int
    output: list[int]
    meta: dict[str, Any]
    chunks: list[tuple[float, int]] = field(default_factory=list)


class LoadError(Exception):
    """A server answered a request with something else than the tokens asked for."""


def open_http() -> aiohttp.ClientSession:
    """A connection for each request: the server drops kept ones after 5 s, in the middle of a new request."""
    limit = aiohttp.ClientTimeout(total=REQUEST_LIMIT_S)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.ClientSession(timeout=limit, connector=connector, read_bufsize=2**20)


def prompts(count: int, length: int, vocabulary: int, seed: int) -> list[tuple[int, ...]]:
    """Random prompts, the same for the same seed."""
    rng = random.Random(seed)
    return [tuple(rng.randrange(10, vocabulary) for _ in range(length)) for _ in range(count)]


async def send(http: aiohttp.ClientSession, url: str, request: Request) -> Done:
    """Send one request and wait for the whole answer."""
    begin = time.monotonic()
    async with http.post(url + "/generate", json=request.body(stream=False)) as reply:
        answer = await reply.json()
        if reply.status != 200 or "meta_info" not in answer:
            raise LoadError(f"{url} answered {reply.status}: {json.dumps(answer)[:300]}")
    return finish(begin, request, answer["output_ids"], answer["meta_info"], [])


async def stream(http: aiohttp.ClientSession, url: str, request: Request) -> Done:
    """Send one request and note when each chunk of tokens came. Every chunk holds all tokens so far.

    (SGLang's disjoint pieces would not do: it drops those that a newer one overtakes on the way out.)
    """
    begin, output, chunks, meta = time.monotonic(), [], [], {}
    async with http.post(url + "/generate", json=request.body(stream=True)) as reply:
        if reply.status != 200:
            raise LoadError(f"{url} answered {reply.status}: {(await reply.text())[:300]}")
        async for line in reply.content:
            if not line.startswith(b"data: {"):
                continue
            piece = json.loads(line[6:])
            if "meta_info" not in piece:
                raise LoadError(f"{url} streamed {line[:300]!r}")
            meta = piece["meta_info"]
            output = piece["output_ids"]
            chunks.append((time.monotonic(), meta["completion_tokens"]))
    return finish(begin, request, output, meta, chunks)


def finish(
    begin: float, request: Request, output: list[int], meta: dict[str, Any], chunks: list[tuple[float, int]]
) -> Done:
    tokens = meta.get("completion_tokens", 0)
    if tokens != request.tokens:
        raise LoadError(f"asked for {request.tokens} tokens, got {tokens}: {meta.get('finish_reason')}")
    return Done(begin, time.monotonic(), tokens, output, meta, chunks)


@dataclass
class Loop:
    """What a closed loop did. `tok_s`: output tokens over the time from the first send to the last answer."""

    done: list[Done]
    seconds: float

    @property
    def tok_s(self) -> float:
        return sum(d.tokens for d in self.done) / self.seconds

    @property
    def accept_length(self) -> float | None:
        """Tokens a verify step, over steps with speculation on; None without any."""
        return accept_length(self.done)


def accept_length(done: Sequence[Done]) -> float | None:
    """Accepted draft tokens a verify step, plus the step's own token, over all these requests."""
    steps = sum(d.meta.get("spec_verify_ct", 0) for d in done)
    accepted = sum(d.meta.get("spec_accept_token_num", 0) for d in done)
    return 1 + accepted / steps if steps else None


@contextlib.asynccontextmanager
async def ending(tasks: Collection[asyncio.Task[Any]]) -> AsyncIterator[None]:
    """Cancel what is left of the tasks when one has failed: the next block must find the server idle."""
    try:
        yield
    finally:
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def closed_loop(
    http: aiohttp.ClientSession, url: str, requests: Sequence[Request], concurrency: int
) -> Loop:
    """Keep `concurrency` requests running until all are answered."""
    waiting = iter(requests)
    done: list[Done] = []

    async def client() -> None:
        for request in waiting:
            done.append(await send(http, url, request))

    begin = time.monotonic()
    clients = [asyncio.create_task(client()) for _ in range(min(concurrency, len(requests)))]
    async with ending(clients):
        await asyncio.gather(*clients)
    return Loop(done, time.monotonic() - begin)


async def varying_loop(
    http: aiohttp.ClientSession,
    url: str,
    target: Callable[[float], int],
    seconds: float,
    make: Callable[[int], Request],
    stream_every: int,
) -> Loop:
    """Keep `target(seconds since the start)` requests running; every n-th one is a timed stream."""
    running: set[asyncio.Task[Done]] = set()
    done: list[Done] = []
    count = 0
    begin = time.monotonic()
    async with ending(running):
        while (now := time.monotonic() - begin) < seconds:
            while len(running) < target(now):
                send_one = stream if count % stream_every == 0 else send
                running.add(asyncio.create_task(send_one(http, url, make(count))))
                count += 1
            finished, _ = await asyncio.wait(running, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            running -= finished
            done += [task.result() for task in finished]
        done += await asyncio.gather(*running)
    return Loop(done, time.monotonic() - begin)
