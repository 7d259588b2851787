"""A burst above the threshold on a server, what the switch did meanwhile, and the texts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rig.client import Answer, Client, Request
from rig.load import prompt

LOOK_S = 0.1


@dataclass(frozen=True)
class Sample:
    """What the server said of the switch at one moment."""

    at: float  # seconds since the load began
    state: str  # on | off
    batch: int
    switches: int


@dataclass(frozen=True)
class Outcome:
    """One load on one server. Texts are token ids by request."""

    samples: tuple[Sample, ...]
    texts: Mapping[str, list[int]]
    before: Mapping[str, Any]  # the switch's own words before and after; empty without one
    after: Mapping[str, Any]

    def grew(self, counter: str) -> int:
        """By how much a counter of the switch went up."""
        return int(self.after[counter]) - int(self.before[counter])


def requests(threshold: int, *, seed: int = 7) -> tuple[list[Request], list[Request], list[Request]]:
    """(one stream before, a burst of more than the threshold, one stream after)."""
    rng = random.Random(seed)

    def some(kind: str, count: int, tokens: int) -> list[Request]:
        return [Request(f"{kind}-{i}", prompt(rng, rng.randrange(6, 30)), tokens) for i in range(count)]

    return some("before", 1, 90), some("burst", 2 * threshold + 1, 300), some("after", 1, 150)


def switch_of(client: Client) -> dict[str, Any]:
    """What /server_info says of the switch; empty where there is none."""
    found = client.json("/server_info")["internal_states"][0].get("dynamic_speculation", {})
    assert isinstance(found, dict)
    return found


def apply(client: Client, parts: Sequence[Sequence[Request]]) -> Outcome:
    """Send the parts one after the other, each part's requests at once, and look at the switch meanwhile."""
    begin, ended, samples = time.monotonic(), threading.Event(), []
    before = switch_of(client)

    def look() -> None:
        while not ended.wait(LOOK_S):
            if state := switch_of(client):
                at = time.monotonic() - begin
                samples.append(Sample(at, state["state"], int(state["batch"]), int(state["switches"])))

    watcher = threading.Thread(target=look, daemon=True)
    if before:
        watcher.start()
    texts: dict[str, list[int]] = {}
    try:
        with ThreadPoolExecutor(max_workers=32) as pool:
            for part in parts:
                answers: Iterable[Answer] = pool.map(client.generate, part)
                texts |= {r.rid: a.tokens for r, a in zip(part, answers, strict=True)}
    finally:
        ended.set()
    if before:
        watcher.join(30)
    return Outcome(tuple(samples), texts, before, switch_of(client))


def timeline(samples: Sequence[Sample]) -> list[str]:
    """A line for each change of the state, and one for the largest batch of each stretch."""
    lines: list[str] = []
    stretch: list[Sample] = []
    for sample in samples:
        if stretch and sample.state != stretch[-1].state:
            lines.append(_stretch(stretch))
            stretch = []
        stretch.append(sample)
    return [*lines, _stretch(stretch)] if stretch else lines


def _stretch(samples: Sequence[Sample]) -> str:
    largest = max(s.batch for s in samples)
    span = f"{samples[0].at:5.1f} s to {samples[-1].at:5.1f} s"
    return f"{span}   speculation {samples[0].state:3}   largest batch seen {largest}"


def went_off_and_on(samples: Sequence[Sample]) -> bool:
    """On, then off, then on again at the end."""
    states = [s.state for s in samples]
    return "off" in states and "on" in states[: states.index("off")] and states[-1] == "on"


def identical(texts: Mapping[str, list[int]], reference: Mapping[str, list[int]]) -> int:
    """How many texts are the reference's, and not empty."""
    return sum(bool(tokens) and reference.get(rid) == tokens for rid, tokens in texts.items())
