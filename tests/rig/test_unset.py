"""Without the flag the built SGLang is the published one: same text, same steps, nothing of ours made."""

from __future__ import annotations

import pytest

from . import acceptance
from .cases import LOAD, params
from .plugin import Rig
from .run import differing
from .server import Spec

pytestmark = pytest.mark.rig
unset = pytest.mark.parametrize("spec", params([Spec("v1", "EAGLE"), Spec("v2", "EAGLE3")]))


def published(spec: Spec) -> Spec:
    return Spec(spec.worker, spec.algorithm, tree="base")


@unset
def test_text_pool_and_steps_are_those_of_the_published_wheel(rig: Rig, spec: Spec) -> None:
    mine, theirs = rig.run(spec, LOAD), rig.run(published(spec), LOAD)
    assert not differing(mine.texts, rig.reference(LOAD))
    assert not differing(theirs.texts, rig.reference(LOAD))
    assert (mine.pool_before, mine.pool_flushed) == (theirs.pool_before, theirs.pool_flushed)
    a, b = acceptance.on_steps(mine.steps, ""), acceptance.on_steps(theirs.steps, "")
    both = a.keys() & b.keys()
    assert len(both) > 500
    assert not {place for place in both if a[place] != b[place]}, "a step accepted another number of tokens"
    assert all(step["on"] for step in mine.steps)


@unset
def test_nothing_of_ours_is_made_or_imported(rig: Rig, spec: Spec) -> None:
    watched = Spec(spec.worker, spec.algorithm, hooks=("probe", "ours"))
    with rig.serve(watched) as server:
        server.client.text("/health_generate")
        state = server.internal_state()
    assert "dynamic_speculation" not in state
    assert state["ours"] == {
        "modules": [
            "sglang.srt.speculative.dynamic_disable",
            "sglang.srt.speculative.dynamic_disable.settings",
        ],
        "objects": [],
        "worker_attribute": None,
    }


def test_with_the_flag_the_same_look_does_find_something(rig: Rig) -> None:
    with rig.serve(Spec("v1", threshold=5, hooks=("probe", "ours"))) as server:
        ours = server.internal_state()["ours"]
    assert "sglang.srt.speculative.dynamic_disable.controller" in ours["modules"]
    assert "PendingPairs" in ours["objects"]
    assert ours["worker_attribute"] == "PlainStepV1"


@pytest.mark.parametrize("worker", ["plain", "v1", "v2"])
def test_metrics_and_state_of_other_servers_are_untouched(rig: Rig, worker: str) -> None:
    with rig.serve(Spec(worker, flags=("--enable-metrics",))) as server:
        server.client.text("/health_generate")
        assert "dynamic_speculation" not in server.client.text("/metrics/")
        assert "dynamic_speculation" not in server.internal_state()
        assert server.markers() == []
