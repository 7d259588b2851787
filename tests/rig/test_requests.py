"""What a request may ask for, and what may happen to it, while speculation goes off and on around it."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from . import reference
from .cases import THRESHOLD, WORKERS, params
from .client import Request
from .load import Load, make, prompt
from .plugin import Rig
from .run import differing
from .server import Spec

pytestmark = pytest.mark.rig

SHORT: dict[str, Any] = {"streams": 24, "stream_tokens": 150, "bursts": 6, "plateau": 6, "plateau_tokens": 60}
# ignore_eos would switch stop_token_ids off as well
STOPS = {"ignore_eos": False, "stop_token_ids": list(range(2, 512, 9))}
V1 = Spec("v1", "EAGLE", threshold=THRESHOLD)
V2 = Spec("v2", "EAGLE3", threshold=THRESHOLD)
both_workers = pytest.mark.parametrize("spec", params([V1, V2]))


def same_as_plain(rig: Rig, spec: Spec, load: Load) -> None:
    """Run the load; the text is the plain server's, every slot comes back, speculation was on and off."""
    result = rig.run(spec, load)
    assert not differing(result.texts, rig.reference(load))
    assert (result.pool_flushed.free, result.pool_flushed.rows) == (8192, 12)
    assert {step["on"] for step in result.steps} == {True, False}


@both_workers
def test_stop_tokens_end_a_request_where_the_plain_server_ends_it(rig: Rig, spec: Spec) -> None:
    load = make(**SHORT, short_sampling=STOPS)
    same_as_plain(rig, spec, load)
    result = rig.run(spec, load)
    expected = reference.answers(rig.serve, load)
    assert {rid: a.finish for rid, a in result.answers.items()} == {
        rid: expected[rid]["meta"]["finish_reason"]["type"] for rid in result.answers
    }
    stopped = sum(answer.finish == "stop" for answer in result.answers.values())
    assert stopped >= 10, "the stop tokens must have been met"


@both_workers
def test_min_new_tokens_holds_stop_tokens_back_and_no_longer(rig: Rig, spec: Spec) -> None:
    load = make(**SHORT, short_sampling={**STOPS, "min_new_tokens": 2})
    result = rig.run(spec, load)
    stopped = sum(answer.finish == "stop" for answer in result.answers.values())
    assert stopped >= 5, "stop tokens must end requests once the minimum is reached"
    if spec.worker == "v1":  # V2 of this release ignores the minimum, with the flag or without
        assert all(len(answer.tokens) >= 2 for answer in result.answers.values())
        # a speculative step of this release also holds stop tokens back that are past the minimum
        always_off = rig.run(replace(spec, threshold=0), load)
        assert not differing(always_off.texts, rig.reference(load))


@both_workers
def test_a_temperature_that_is_next_to_zero_gives_greedy_text_through_the_sampling_path(
    rig: Rig, spec: Spec
) -> None:
    load = make(**SHORT, sampling={"temperature": 1e-5})
    greedy = make(**SHORT)
    result = rig.run(spec, load)
    assert not differing(result.texts, rig.reference(greedy))
    assert result.pool_flushed.free == 8192


@both_workers
def test_sampled_requests_get_their_length_and_leave_nothing_behind(rig: Rig, spec: Spec) -> None:
    load = make(**SHORT, sampling={"temperature": 1.0, "top_k": 20, "top_p": 0.9}, again=0)
    result = rig.run(spec, load)
    wanted = {request.rid: request.tokens for request in load.requests}
    assert {rid: len(a.tokens) for rid, a in result.answers.items()} == {
        rid: wanted[rid] for rid in result.answers
    }
    assert (result.pool_flushed.free, result.pool_flushed.rows) == (8192, 12)
    assert {step["on"] for step in result.steps} == {True, False}


@pytest.mark.parametrize("worker", WORKERS)
def test_tokens_sampled_while_off_have_the_plain_servers_distribution(rig: Rig, worker: str) -> None:
    """The second token of a request comes from the first decode step: off here, plain there."""
    count = 1500
    ask = prompt(random.Random(1), 12)
    sampling = {"temperature": 1.0, "top_k": 8}
    requests = tuple(Request(f"draw-{i}", ask, 2, sampling) for i in range(count))
    load = Load(streams=requests, parallel=12)
    expected = _frequencies([a["tokens"] for a in reference.answers(rig.serve, load).values()])
    with rig.serve(Spec(worker, "EAGLE", threshold=0)) as server, ThreadPoolExecutor(12) as pool:
        drawn = list(pool.map(server.client.generate, requests))
        assert not any(step["on"] for step in server.steps())
    got = _frequencies([answer.tokens for answer in drawn])
    distance = sum(abs(expected.get(k, 0) - got.get(k, 0)) for k in expected.keys() | got.keys()) / 2
    # two samples of this size from one distribution over some 60 pairs lie about 0.1 apart
    assert distance < 0.16
    assert len(expected) > 20, "the distribution must not be a point"


def _frequencies(pairs: list[list[int]]) -> dict[tuple[int, ...], float]:
    counts: dict[tuple[int, ...], float] = {}
    for pair in pairs:
        counts[tuple(pair)] = counts.get(tuple(pair), 0) + 1 / len(pairs)
    return counts


def test_penalties_are_exact_while_off(rig: Rig) -> None:
    """Threshold 0: every step is off. With speculation on, EAGLEWorker's own penalties are approximate."""
    load = make(**SHORT, sampling={"frequency_penalty": 0.7, "presence_penalty": 0.3, "min_new_tokens": 2})
    result = rig.run(Spec("v1", "EAGLE", threshold=0), load)
    assert not differing(result.texts, rig.reference(load))
    assert differing(result.texts, rig.reference(make(**SHORT))), "the penalties must have changed the text"


def test_logprobs_have_one_entry_a_token_across_switches_and_are_the_plain_servers(rig: Rig) -> None:
    load = make(**SHORT, options={"return_logprob": True, "top_logprobs_num": 2}, again=0)
    same_as_plain(rig, V1, load)
    expected = reference.answers(rig.serve, load)
    for rid, answer in rig.run(V1, load).answers.items():
        mine, plain = answer.meta["output_token_logprobs"], expected[rid]["meta"]["output_token_logprobs"]
        assert len(mine) == len(answer.tokens) == len(answer.meta["output_top_logprobs"]), rid
        assert [token for _, token, *_ in mine] == answer.tokens, rid
        assert [p for p, *_ in mine] == pytest.approx([p for p, *_ in plain], abs=2e-4), rid


def test_a_tree_of_drafts_and_its_logprobs_survive_switches(rig: Rig) -> None:
    flags = ("--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8")
    load = make(**SHORT, options={"return_logprob": True, "top_logprobs_num": 2}, again=0)
    spec = Spec("v1", "EAGLE3", threshold=THRESHOLD, flags=flags)
    same_as_plain(rig, spec, load)
    for rid, answer in rig.run(spec, load).answers.items():
        assert len(answer.meta["output_token_logprobs"]) == len(answer.tokens), rid


GRAMMAR = ("--grammar-backend", "xgrammar")
PLAIN_GRAMMAR = replace(reference.PLAIN, flags=(*reference.PLAIN.flags, *GRAMMAR))
# words by their first digit in turn; every word that begins right is a whole one, so nothing gets stuck
IN_TURN = "((t[12][0-9]*)(t[34][0-9]*))*"


@pytest.mark.parametrize(
    "spec", params([Spec(s.worker, s.algorithm, threshold=THRESHOLD, flags=GRAMMAR) for s in (V1, V2)])
)
def test_text_follows_its_grammar_across_switches_and_is_the_plain_servers(rig: Rig, spec: Spec) -> None:
    load = make(**SHORT, sampling={"regex": IN_TURN})
    result = rig.run(spec, load)
    assert not differing(result.texts, rig.reference(load, PLAIN_GRAMMAR))
    assert differing(result.texts, rig.reference(make(**SHORT))), "the grammar must have changed the text"
    assert {step["on"] for step in result.steps} == {True, False}
    for answer in result.answers.values():
        digits = [str(token)[0] for token in answer.tokens]
        assert all(d in "12" for d in digits[::2])
        assert all(d in "34" for d in digits[1::2])
    assert (result.pool_flushed.free, result.pool_flushed.rows) == (8192, 12)


@pytest.mark.parametrize("worker", WORKERS)
def test_a_grammar_that_gets_stuck_ends_its_request_only(rig: Rig, worker: str) -> None:
    """`t14` is a word and the beginning of one of three digits: nothing may follow it."""
    stuck = Request("stuck", (5, 77, 300), 20, {"regex": "(t1[0-9][0-9])*"})
    fine = Request("fine", (5, 77, 300), 20, {"regex": IN_TURN})
    load = Load(streams=(stuck, fine), parallel=2)
    expected = rig.reference(load, PLAIN_GRAMMAR)
    with rig.serve(Spec(worker, threshold=0, flags=GRAMMAR)) as server, ThreadPoolExecutor(2) as pool:
        answers = dict(zip(("stuck", "fine"), pool.map(server.client.generate, load.streams), strict=True))
        assert server.client.generate(Request("after", (5, 6), 8)).finish == "length"
    assert (answers["stuck"].finish, answers["fine"].finish) == ("abort", "length")
    if worker == "v1":  # ends at once; the plain server lets one token follow that nothing constrains
        expected["stuck"] = expected["stuck"][:-1]
    assert not differing({rid: answer.tokens for rid, answer in answers.items()}, expected)


@both_workers
def test_streamed_tokens_come_in_order_and_once(rig: Rig, spec: Spec) -> None:
    rng = random.Random(2)
    requests = [Request(f"stream-{j}", prompt(rng, 10 + j), 90 if j < 4 else 25) for j in range(8)]
    expected = rig.reference(Load(streams=tuple(requests), parallel=8))
    seen: dict[str, list[int]] = {r.rid: [] for r in requests}
    spec = replace(spec, hooks=("probe", "gather"))
    with rig.serve(spec) as server, ThreadPoolExecutor(8) as pool:
        server.gather(8)
        sent = {r.rid: pool.submit(server.client.stream, r, seen[r.rid].append) for r in requests}
        texts = {rid: future.result().tokens for rid, future in sent.items()}
        assert {step["on"] for step in server.steps()} == {True, False}
    assert not differing(texts, expected)
    for rid, counts in seen.items():
        assert counts == sorted(set(counts)) or counts[:-1] == sorted(set(counts)), rid
        assert counts[-1] == len(texts[rid]), rid


@both_workers
def test_aborted_requests_leave_the_others_and_the_pools_alone(rig: Rig, spec: Spec) -> None:
    rng = random.Random(4)
    requests = [Request(f"stream-{j}", prompt(rng, 8 + j), 400) for j in range(8)]
    expected = rig.reference(Load(streams=tuple(requests), parallel=8))
    gone = [r.rid for r in requests[1:8:2]]
    with rig.serve(spec) as server, ThreadPoolExecutor(8) as pool:
        sent = {r.rid: pool.submit(server.client.generate, r) for r in requests}
        deadline = time.monotonic() + 60
        while not (server.dynamic()["state"] == "off" and server.dynamic()["batch"] == 8):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for rid in gone:
            server.client.text("/abort_request", {"rid": rid})
        answers = {rid: future.result() for rid, future in sent.items()}
        server.wait_idle()
        server.flush()
        server.wait_idle()
        pool_after = server.pool()
        assert server.dynamic()["switches"] == 2, "the four that are left must speculate again"
    assert {rid for rid, a in answers.items() if a.finish == "abort"} == set(gone)
    assert not differing({rid: a.tokens for rid, a in answers.items() if rid not in gone}, expected)
    for rid in gone:
        cut = answers[rid].tokens
        assert 0 < len(cut) < 400
        assert cut == expected[rid][: len(cut)], rid
    assert (pool_after.free, pool_after.rows) == (8192, 12)
