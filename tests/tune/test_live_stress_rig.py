"""Thresholds changed again and again on a real server under load: no answer changes, nothing leaks."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from rig.client import Answer, Refused, Request
from rig.load import Load, make
from rig.plugin import Rig
from rig.run import differing
from rig.server import Server, Spec

pytestmark = [pytest.mark.rig, pytest.mark.slow, pytest.mark.timeout(1200)]

AT_ONCE = 20  # requests in flight, so that a threshold below it switches off and one above it on
MOST = 27  # highest threshold
LIMIT = ("--max-running-requests", str(MOST + 1))
PAUSE_S = 0.3  # between two changes: a second has several
LOAD = make(
    streams=60, parallel=4, stream_tokens=90, bursts=90, plateau=24, plateau_tokens=80, again=0, seed=11
)
SPECS = [
    Spec(worker, algorithm, threshold=8, radix=radix, flags=LIMIT)
    for worker in ("v1", "v2")
    for algorithm, radix in (("EAGLE", True), ("EAGLE3", False))
]


@dataclass
class Changer:
    """Changes the thresholds until it is told to stop."""

    server: Server
    seed: int = 3
    made: list[tuple[int, int, int]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def values(self) -> Iterator[tuple[int, int, int]]:
        rng = random.Random(self.seed)
        while True:
            low, high = rng.randrange(AT_ONCE), rng.randint(AT_ONCE, MOST)
            for threshold in (low, high, 0, MOST, rng.randint(0, MOST)):
                resume = threshold if rng.random() < 0.6 else rng.randint(min(1, threshold), threshold)
                yield threshold, resume, rng.choice((1, 1, 2, 4))

    def run(self) -> None:
        for threshold, resume, steps in self.values():
            if self.over.is_set():
                return
            try:
                self.server.set_state(
                    speculative_disable_batch_threshold=threshold,
                    speculative_resume_batch_threshold=resume,
                    speculative_resume_steps=steps,
                )
                self.made.append((threshold, resume, steps))
            except (OSError, Refused) as exc:
                self.refused.append(f"{threshold}, {resume}, {steps}: {exc}")
                if len(self.refused) > 5:
                    return
            self.over.wait(PAUSE_S)


def answers(server: Server, load: Load) -> dict[str, Answer]:
    """Everything of the load, always as many at once as the server runs."""

    def ask(request: Request) -> Answer:
        return server.client.generate(request)

    order = random.Random(7).sample(load.requests, len(load.requests))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip([r.rid for r in order], pool.map(ask, order), strict=True))


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_texts_stay_the_plain_servers_while_thresholds_change_every_moment(rig: Rig, spec: Spec) -> None:
    want = rig.reference(LOAD)
    with rig.serve(spec) as server:
        server.wait_idle()
        server.flush()
        server.wait_idle()
        before = server.pool()
        changer = Changer(server)
        thread = threading.Thread(target=changer.run, daemon=True)
        thread.start()
        try:
            said = answers(server, LOAD)
        finally:
            changer.over.set()
            thread.join(60)
        server.wait_idle()  # SGLang's own check for leaks
        server.flush()
        server.wait_idle()
        after, state, steps = server.pool(), server.dynamic(), server.steps()
        assert server.status() is None, server.tail()
        log = server.log_text()
    print(f"{spec.name}: {len(changer.made)} changes, {state['switches']} switches, {len(steps)} steps")
    assert changer.refused == []
    assert len(changer.made) >= 20
    assert state["switches"] >= 10
    assert (state["threshold"], state["resume"], state["resume_steps"]) == changer.made[-1]
    assert differing({rid: a.tokens for rid, a in said.items()}, want) == {}
    assert (after.free, after.rows) == (before.free, before.rows)
    assert "Traceback" not in log
