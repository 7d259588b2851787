"""Faults of the published release that the known-faults overlay repairs: shown there, gone here."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from . import environment, reference
from .cases import THRESHOLD, params
from .client import Request
from .load import Load, prompt
from .plugin import Rig
from .run import differing
from .server import Spec

pytestmark = [
    pytest.mark.rig,
    pytest.mark.skipif(
        environment.why_not() is None
        and not (environment.tree("dist") / "sglang/srt/known_faults.py").exists(),
        reason="this distribution was built without the known-faults overlay",
    ),
]

ASK = Request(
    "asks-for-logprobs", (5, 77, 300, 12), 24, options={"return_logprob": True, "top_logprobs_num": 2}
)


@pytest.mark.parametrize("threshold", [None, 0, THRESHOLD])
def test_a_request_for_logprobs_does_not_end_an_eagle3_server_with_overlap(
    rig: Rig, threshold: int | None
) -> None:
    with rig.serve(Spec("v2", "EAGLE3", threshold=threshold)) as server:
        answer = server.client.generate(ASK)
        assert len(answer.tokens) == 24
        assert answer.meta["output_token_logprobs"], "this release reports the first token's only"
        assert len(server.client.generate(Request("after", (5, 6), 8)).tokens) == 8


@pytest.mark.slow
def test_the_published_release_dies_of_it(rig: Rig) -> None:
    with rig.serve(Spec("v2", "EAGLE3", tree="base")) as server:
        with pytest.raises(ConnectionError):
            server.client.generate(ASK)
        assert server.wait_end(30) != 0


def _short_limits() -> Load:
    """Greedy requests with many stop tokens and small limits: some meet both in one accepted run."""
    rng = random.Random(8)
    stops = {"ignore_eos": False, "stop_token_ids": list(range(2, 512, 5))}
    requests = tuple(Request(f"stream-{j}", prompt(rng, 4 + j % 20), 2 + j % 9, stops) for j in range(120))
    return Load(streams=requests, parallel=8)


@pytest.mark.parametrize(
    "spec", params([Spec("v2", "EAGLE", threshold=3), Spec("v2", "EAGLE3", threshold=3), Spec("v2", "EAGLE")])
)
def test_a_stop_token_in_the_run_that_reaches_the_limit_is_not_missed(rig: Rig, spec: Spec) -> None:
    load = _short_limits()
    expected = reference.answers(rig.serve, load)
    with rig.serve(spec) as server, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(server.client.generate, load.streams))
    texts = {r.rid: a.tokens for r, a in zip(load.streams, answers, strict=True)}
    assert not differing(texts, rig.reference(load))
    finishes = {r.rid: a.finish for r, a in zip(load.streams, answers, strict=True)}
    assert finishes == {rid: expected[rid]["meta"]["finish_reason"]["type"] for rid in finishes}
    assert 20 < sum(finish == "stop" for finish in finishes.values()) < 120


@pytest.mark.slow
def test_the_published_release_misses_some(rig: Rig) -> None:
    load = _short_limits()
    with rig.serve(Spec("v2", "EAGLE", tree="base")) as server, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(server.client.generate, load.streams))
    texts = {r.rid: a.tokens for r, a in zip(load.streams, answers, strict=True)}
    missed = differing(texts, rig.reference(load))
    assert missed
    assert all(where.startswith("one is a prefix") for where in missed.values())
