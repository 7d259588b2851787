"""The load that makes a server cross its threshold many times, and the driver that applies it.

A few streams keep the batch at or below the threshold; a stream that ends is followed by the next one.
Again and again a burst of short requests lifts the batch above the threshold; the next burst
starts only when the last one is finished and the streams have moved on. So the number of crossings does not
depend on how fast the machine is. Then a plateau of requests stays above the threshold for hundreds of decode
steps, and the first streams are asked to go on from where they ended (radix hits on what was cached while
speculation was off).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from .client import Answer, Client, Request

TOKEN_IDS = range(2, 502)


@dataclass(frozen=True)
class Load:
    """Requests of one run."""

    streams: tuple[Request, ...]  # as many of them are sent as it takes
    parallel: int  # streams at a time
    bursts: tuple[tuple[Request, ...], ...] = ()
    plateau: tuple[Request, ...] = ()
    gap: int = 14  # tokens that each running stream makes between two bursts, on average
    again: int = 0  # tokens to go on for with each of the first `parallel` streams; 0: do not

    @property
    def requests(self) -> list[Request]:
        return [*self.streams, *(r for burst in self.bursts for r in burst), *self.plateau]


def prompt(rng: random.Random, length: int) -> tuple[int, ...]:
    return tuple(rng.choice(TOKEN_IDS) for _ in range(length))


def make(
    *,
    streams: int = 40,
    parallel: int = 4,
    stream_tokens: int = 240,
    bursts: int = 11,
    plateau: int = 7,
    plateau_tokens: int = 220,
    gap: int = 14,
    again: int = 40,
    seed: int = 5,
    sampling: dict[str, Any] | None = None,
    short_sampling: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Load:
    """The standard load: with 4 parallel streams and bursts of 2 to 4, each burst crosses a threshold of 5.

    `sampling` is for all requests, `short_sampling` for those of bursts and plateau only.
    """
    rng = random.Random(seed)
    shared = prompt(rng, 24)
    extra = {"sampling": sampling or {}, "options": options or {}}
    brief = {**extra, "sampling": {**(sampling or {}), **(short_sampling or {})}}

    def short(rid: str) -> Request:
        # some share a prefix, so that they hit what other bursts have cached
        head = shared[: rng.randrange(8, 24)] if rng.random() < 0.4 else ()
        return Request(rid, head + prompt(rng, rng.randrange(3, 33)), rng.randrange(2, 16), **brief)

    def long(rid: str, tokens: int, extra: dict[str, Any]) -> Request:
        return Request(rid, prompt(rng, rng.randrange(5, 45)), tokens - rng.randrange(0, 40), **extra)

    return Load(
        streams=tuple(long(f"stream-{j}", stream_tokens, extra) for j in range(streams)),
        parallel=parallel,
        bursts=tuple(tuple(short(f"burst-{b}-{j}") for j in range(2 + b % 3)) for b in range(bursts)),
        plateau=tuple(long(f"plateau-{j}", plateau_tokens, brief) for j in range(plateau)),
        gap=gap,
        again=again,
    )


class StreamsEnded(Exception):
    """All streams were over before all bursts were sent."""


class _Relay:
    """Keeps `parallel` streams running until `finish`."""

    def __init__(self, client: Client, pool: ThreadPoolExecutor, load: Load) -> None:
        self.client, self.pool, self.load = client, pool, load
        self.waiting = list(reversed(load.streams))
        self.answers: dict[str, Future[Answer]] = {}
        self.tokens: dict[str, int] = {}  # so far, by stream
        self.changed = threading.Condition()
        self.running = 0
        self.stopped = False
        for _ in range(load.parallel):
            self._next()

    def _next(self) -> None:
        with self.changed:
            if not self.stopped and self.waiting:
                stream = self.waiting.pop()
                self.running += 1
                self.answers[stream.rid] = self.pool.submit(self._run, stream)

    def _run(self, stream: Request) -> Answer:
        def count(tokens: int) -> None:
            with self.changed:
                self.tokens[stream.rid] = tokens
                self.changed.notify_all()

        try:
            answer = self.client.stream(stream, count)
        except BaseException:
            with self.changed:
                self.stopped = True  # what ended this one will end the next
            raise
        finally:
            self._next()
            with self.changed:
                self.running -= 1
                self.changed.notify_all()
        return answer

    def advance(self, gap: int) -> None:
        """Wait until the streams together have made gap tokens for each one that runs."""
        with self.changed:
            goal = sum(self.tokens.values()) + gap * self.load.parallel

            def reached() -> bool:
                return sum(self.tokens.values()) >= goal or not self.running

            if not self.changed.wait_for(reached, self.client.timeout_s):
                raise TimeoutError("the streams stand still")
            if sum(self.tokens.values()) < goal:
                for answer in self.finish().values():
                    answer.result()  # raises what ended a stream early
                raise StreamsEnded("all streams are over and bursts are left")

    def finish(self) -> dict[str, Future[Answer]]:
        with self.changed:
            self.stopped = True
        wait(self.answers.values())
        return self.answers


def _go_on(stream: Request, said: Answer, tokens: int) -> Request:
    """The stream's prompt and text as a prompt, without the newest tokens: those are not cached yet."""
    return replace(
        stream, rid=f"again-{stream.rid}", prompt=stream.prompt + tuple(said.tokens)[:-10], tokens=tokens
    )


def drive(client: Client, load: Load) -> dict[str, Answer]:
    """Apply the load; the answers by request id, those of `again` as `again-<stream>`."""
    answers: dict[str, Future[Answer]] = {}
    with ThreadPoolExecutor(max_workers=64) as pool:

        def send(requests: Sequence[Request]) -> None:
            sent = [pool.submit(client.generate, r) for r in requests]
            answers.update(zip((r.rid for r in requests), sent, strict=True))
            wait(sent)

        relay = _Relay(client, pool, load)
        for burst in load.bursts:
            relay.advance(load.gap)
            send(burst)
        relay.advance(2 * load.gap)
        answers.update(relay.finish())
        send(load.plateau)
        for stream in load.streams[: load.parallel] if load.again else ():
            send([_go_on(stream, answers[stream.rid].result(), load.again)])
    return {rid: future.result() for rid, future in answers.items()}


def answer_all(client: Client, load: Load) -> dict[str, Answer]:
    """Every request of the load, without its shape: what a server whose text depends on nothing else says."""
    with ThreadPoolExecutor(max_workers=64) as pool:
        answers = dict(
            zip([r.rid for r in load.requests], pool.map(client.generate, load.requests), strict=True)
        )
        going_on = load.streams[: load.parallel] if load.again else ()
        more = [_go_on(stream, answers[stream.rid], load.again) for stream in going_on]
        answers.update(zip([r.rid for r in more], pool.map(client.generate, more), strict=True))
    return answers
