"""When speculation goes off and on: the edges, hovering around the threshold, and changes while serving."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from . import rule
from .cases import LOAD, WORKERS, params
from .client import Refused, Request
from .load import Load, make, prompt
from .plugin import Rig
from .run import differing
from .server import Server, Spec

pytestmark = pytest.mark.rig
both_workers = pytest.mark.parametrize(
    "spec",
    params([Spec("v1", "EAGLE", threshold=5), Spec("v2", "EAGLE3", threshold=5)]),
)


@pytest.mark.parametrize(
    "spec", params([Spec("v1", "EAGLE3", threshold=0), Spec("v2", "EAGLE", threshold=0)])
)
def test_threshold_zero_never_speculates_and_the_server_survives_intervals_without_a_speculative_step(
    rig: Rig, spec: Spec
) -> None:
    load = make(streams=8, bursts=3, plateau=0)
    result = rig.run(spec, load)
    assert not any(step["on"] for step in result.steps)
    assert len(result.steps) > 10 * 5, "many decode log intervals must have passed"
    assert not differing(result.texts, rig.reference(load))
    assert result.state is not None
    assert (result.state["state"], result.state["accept_length_on"]) == ("off", None)
    assert (result.pool_flushed.free, result.pool_flushed.rows) == (8192, 12)


@pytest.mark.parametrize("worker", WORKERS)
def test_a_batch_that_hovers_around_the_threshold_does_not_flap(rig: Rig, worker: str) -> None:
    """Three streams and, again and again, one request of a few tokens: decode batches of 3, 4, 3, 4, ..."""
    rng = random.Random(11)
    streams = tuple(Request(f"stream-{j}", prompt(rng, 9), 240) for j in range(12))
    visitors = tuple((Request(f"burst-{b}", prompt(rng, 5), 2 + b % 2),) for b in range(30))
    load = Load(streams=streams, parallel=3, bursts=visitors, gap=1)
    flags = ("--speculative-resume-batch-threshold", "3", "--speculative-resume-steps", "6")
    result = rig.run(Spec(worker, "EAGLE", threshold=3, flags=flags), load)
    batches = [step["batch"] for step in result.steps]
    crossings = sum((a > 3) != (b > 3) for a, b in itertools.pairwise(batches))
    assert crossings >= 40, "the load must cross the threshold again and again"
    assert [step["on"] for step in result.steps] == rule.follow(batches, 3, 3, 6)
    kinds = [step["on"] for step in result.steps]
    starts = [i for i, (a, b) in enumerate(itertools.pairwise([True, *kinds])) if a and not b]
    for start in starts:
        assert not any(kinds[start : start + 6]), "once off, it stays off for the dwell at least"
    assert not differing(result.texts, rig.reference(load))


def _decoding(server: Server, count: int) -> None:
    """Wait until `count` requests decode together."""
    deadline = time.monotonic() + 60
    while server.dynamic()["batch"] != count:
        assert time.monotonic() < deadline, f"no batch of {count}: {server.dynamic()}"
        time.sleep(0.02)


def _wait_state(server: Server, state: str) -> None:
    deadline = time.monotonic() + 60
    while server.dynamic()["state"] != state:
        assert time.monotonic() < deadline, f"not {state}: {server.dynamic()}"
        time.sleep(0.02)


@both_workers
def test_the_threshold_can_be_lowered_and_raised_while_requests_run(rig: Rig, spec: Spec) -> None:
    rng = random.Random(3)
    requests = tuple(Request(f"stream-{j}", prompt(rng, 8 + j), 700) for j in range(4))
    load = Load(streams=requests, parallel=4)
    reference = rig.reference(load)
    with rig.serve(spec) as server:
        with ThreadPoolExecutor() as pool:
            sent = {r.rid: pool.submit(server.client.generate, r) for r in requests}
            _decoding(server, 4)
            assert server.dynamic()["state"] == "on"
            assert server.set_state(speculative_disable_batch_threshold=2) == [True]
            _wait_state(server, "off")
            lowered = server.dynamic()
            assert (lowered["threshold"], lowered["resume"]) == (2, 1)
            answer = server.set_state(
                speculative_disable_batch_threshold=6,
                speculative_resume_batch_threshold=5,
                speculative_resume_steps=2,
            )
            assert answer == [True]
            _wait_state(server, "on")
            raised = server.dynamic()
            assert [raised[k] for k in ("threshold", "resume", "resume_steps")] == [6, 5, 2]
            assert raised["switches"] == 2
            texts = {rid: future.result().tokens for rid, future in sent.items()}
        assert not differing(texts, reference)
        info = server.internal_state()
        assert info["speculative_disable_batch_threshold"] == 6
        server.wait_idle()
        server.flush()
        assert server.pool().free == 8192


REFUSED_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"speculative_disable_batch_threshold": -1}, "-1"),
    ({"speculative_disable_batch_threshold": "abc"}, "abc"),
    ({"speculative_disable_batch_threshold": True}, "True"),
    ({"speculative_disable_batch_threshold": 2.5}, "2.5"),
    ({"speculative_disable_batch_threshold": 12}, "12 requests"),
    ({"speculative_resume_batch_threshold": 6}, "must not be larger"),
    ({"speculative_resume_steps": 0}, "speculative-resume-steps"),
    ({"speculative_disable_batch_threshold": 4, "pp_max_micro_batch_size": 4}, "pp_max_micro_batch_size"),
]


@both_workers
def test_a_refused_change_says_why_and_changes_nothing(rig: Rig, spec: Spec) -> None:
    with rig.serve(spec) as server:
        before = server.dynamic()
        for change, reason in REFUSED_CHANGES:
            with pytest.raises(Refused, match="HTTP 400") as refusal:
                server.set_state(**change)
            assert reason in refusal.value.text, change
            assert server.dynamic() == before, change
        assert server.client.generate(Request("alive", (5, 6, 7), 8)).finish == "length"


@pytest.mark.parametrize("spec", params([Spec("v1", "EAGLE"), Spec("v2", "EAGLE3")]))
def test_a_server_started_without_the_flag_refuses_a_threshold(rig: Rig, spec: Spec) -> None:
    with rig.serve(spec) as server:
        with pytest.raises(Refused, match="started without") as refusal:
            server.set_state(speculative_disable_batch_threshold=4)
        assert refusal.value.status == 400


@both_workers
def test_switch_lines_say_which_batch_and_are_limited_to_one_a_second(rig: Rig, spec: Spec) -> None:
    lines = re.findall(
        r"\[(\S+ \S+)\] Dynamic speculation: (?:off, batch (\d+) > 5|on, batch (\d+) <= 4 for 4 steps)",
        rig.run(spec, LOAD).log,
    )
    assert lines, "no switch was logged"
    assert all(int(off) > 5 for _, off, _ in lines if off)
    assert all(int(on) <= 4 for _, _, on in lines if on)
    # two lines may be a second apart and still carry the same second
    assert max(Counter(stamp for stamp, _, _ in lines).values()) <= 2


def test_the_rule_itself() -> None:
    """The second writing of the rule, on sequences small enough to check by eye."""
    assert rule.follow([3, 6, 4, 4, 4, 4, 4], 5, 4, 4) == [True, False, False, False, False, True, True]
    assert rule.follow([6, 4, 4, 5, 4, 4, 4, 4], 5, 4, 4) == [False] * 7 + [True]
    assert rule.follow([1, 1], 0, 0, 1) == [False, False]
