"""KV memory in the shapes that are hard: pages, chunked prefill, retraction, several switches a request."""

from __future__ import annotations

from typing import Any

import pytest

from .cases import THRESHOLD, params
from .load import make
from .plugin import Rig
from .run import LEAK, differing
from .server import Spec

pytestmark = pytest.mark.rig

SHORT: dict[str, Any] = {
    "streams": 24,
    "stream_tokens": 170,
    "bursts": 6,
    "plateau": 7,
    "plateau_tokens": 120,
}
LOAD = make(**SHORT)
STRICT = ("SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY", "1")  # SGLang's own count of all slots, every step


def both(*flags: str, **more: Any) -> list[object]:
    """Each worker with one algorithm; with the other one too in the full matrix."""
    common: dict[str, Any] = {"threshold": THRESHOLD, "flags": flags, **more}
    return [
        *params([Spec("v1", "EAGLE", **common), Spec("v2", "EAGLE3", **common)]),
        *params([Spec("v1", "EAGLE3", **common), Spec("v2", "EAGLE", **common)], pytest.mark.slow),
    ]


def check(rig: Rig, spec: Spec, pool: int = 8192) -> None:
    result = rig.run(spec, LOAD)
    assert not differing(result.texts, rig.reference(LOAD))
    assert (result.pool_before.free, result.pool_flushed.free) == (pool, pool)
    assert result.pool_flushed.rows == result.pool_before.rows
    assert LEAK not in result.log
    assert {step["on"] for step in result.steps} == {True, False}


@pytest.mark.parametrize("spec", both("--page-size", "16"))
def test_pages_of_sixteen(rig: Rig, spec: Spec) -> None:
    check(rig, spec)


@pytest.mark.parametrize("spec", both("--chunked-prefill-size", "16"))
def test_prompts_in_chunks_between_plain_steps(rig: Rig, spec: Spec) -> None:
    check(rig, spec)
    prompts = {request.rid: len(request.prompt) for request in LOAD.requests}
    assert max(prompts.values()) > 32, "prompts must need several chunks"


# so little memory holds few requests at a time: only a lower threshold is crossed for sure
@pytest.mark.parametrize("spec", both("--page-size", "16", "--max-total-tokens", "512", threshold=3))
def test_requests_retracted_for_lack_of_memory_come_back_right(rig: Rig, spec: Spec) -> None:
    check(rig, spec, pool=512)
    assert rig.run(spec, LOAD).pool_flushed.retracted >= 2, "the pool must have been too small"


@pytest.mark.parametrize("spec", both(hooks=("probe", "retract")))
def test_requests_retracted_at_random_come_back_right(rig: Rig, spec: Spec) -> None:
    check(rig, spec)
    assert rig.run(spec, LOAD).pool_flushed.retracted >= 3


@pytest.mark.parametrize("spec", both(env=(STRICT,)))
def test_the_slots_add_up_in_every_single_step(rig: Rig, spec: Spec) -> None:
    check(rig, spec)


@pytest.mark.slow
@pytest.mark.parametrize("spec", both("--disable-overlap-schedule"))
def test_without_the_overlap_scheduler(rig: Rig, spec: Spec) -> None:
    check(rig, spec)
