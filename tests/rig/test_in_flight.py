"""EAGLEWorker while off: each step starts before the host has the tokens of the one before it."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from .cases import THRESHOLD, params
from .client import Request
from .load import Load, prompt
from .plugin import Rig
from .run import differing
from .server import Server, ServerDied, Spec

pytestmark = pytest.mark.rig

V1 = Spec("v1", "EAGLE", threshold=THRESHOLD, hooks=("probe", "gather"))


def requests(tokens: int, count: int = 8) -> tuple[Request, ...]:
    rng = random.Random(21)
    return tuple(Request(f"stream-{j}", prompt(rng, 8 + j), tokens + 11 * j) for j in range(count))


def wait_off(server: Server, batch: int, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while (now := server.dynamic())["state"] != "off" or now["batch"] != batch:
        assert time.monotonic() < deadline, now
        time.sleep(0.02)


def texts_with_retractions(rig: Rig, spec: Spec) -> dict[str, list[int]]:
    """Three times in the middle of plain steps all requests are retracted and prefilled again."""
    asked = requests(200)
    with rig.serve(spec) as server, ThreadPoolExecutor(8) as pool:
        server.gather(len(asked))
        sent = {r.rid: pool.submit(server.client.generate, r) for r in asked}
        for _ in range(3):
            wait_off(server, len(asked))
            server.client.text("/pause_generation", {"mode": "retract"})
            server.client.text("/continue_generation", {})
            time.sleep(0.3)
        texts = {rid: future.result().tokens for rid, future in sent.items()}
        server.wait_idle()
        server.flush()
        server.wait_idle()
        after = server.pool()
        assert (after.free, after.rows) == (8192, 12)
    return texts


@pytest.mark.parametrize("spec", params([V1, replace(V1, flags=("--page-size", "16"))]))
def test_requests_retracted_with_a_step_in_flight_get_each_token_once(rig: Rig, spec: Spec) -> None:
    expected = rig.reference(Load(streams=requests(200), parallel=8))
    assert not differing(texts_with_retractions(rig, spec), expected)


def test_a_retraction_that_is_not_noticed_gives_wrong_text_or_ends_the_server(rig: Rig) -> None:
    """Break it on purpose."""
    expected = rig.reference(Load(streams=requests(200), parallel=8))
    spec = replace(V1, hooks=("probe", "gather", "sabotage"), env=(("RIG_SABOTAGE", "late-token-kept"),))
    try:
        texts = texts_with_retractions(rig, spec)
    except (OSError, ServerDied):
        return
    assert differing(texts, expected)


def test_the_step_in_flight_is_waited_for_once_before_speculation_resumes(rig: Rig) -> None:
    asked = requests(60)  # they end one after the other: one way off, one way back
    expected = rig.reference(Load(streams=asked, parallel=8))
    with rig.serve(V1) as server, ThreadPoolExecutor(8) as pool:
        before = server.internal_state()["rig"]["landings"]
        server.gather(len(asked))
        answers = {r.rid: pool.submit(server.client.generate, r) for r in asked}
        texts = {rid: future.result().tokens for rid, future in answers.items()}
        assert server.dynamic()["switches"] == 2
        assert server.internal_state()["rig"]["landings"] - before == 1
    assert not differing(texts, expected)


def test_a_streaming_client_gets_no_part_without_a_token(rig: Rig) -> None:
    counts: dict[str, list[int]] = {r.rid: [] for r in requests(60)}
    with rig.serve(V1) as server, ThreadPoolExecutor(8) as pool:
        server.gather(8)
        sent = [pool.submit(server.client.stream, r, counts[r.rid].append) for r in requests(60)]
        texts = {rid: future.result().tokens for rid, future in zip(counts, sent, strict=True)}
        assert {step["on"] for step in server.steps()} == {True, False}
    for rid, seen in counts.items():
        assert seen == sorted(set(seen)), rid
        assert seen[-1] == len(texts[rid]), rid
