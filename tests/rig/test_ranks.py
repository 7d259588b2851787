"""Two tensor-parallel ranks on the CPU (gloo): they see the same batches and must decide alike."""

from __future__ import annotations

import os
import re

import pytest

from .cases import LOAD, THRESHOLD, WORKERS, params
from .client import Refused
from .load import drive
from .plugin import Rig
from .run import differing
from .server import Spec

pytestmark = pytest.mark.rig


def _two_ranks(worker: str, algorithm: str) -> Spec:
    cores = sorted(os.sched_getaffinity(0))
    return Spec(
        worker,
        algorithm,
        threshold=THRESHOLD,
        flags=("--tp", "2"),
        # SGLang binds a rank to a NUMA node unless told otherwise, and refuses more ranks than nodes
        env=(("SGLANG_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[-1]}"),),
    )


@pytest.mark.parametrize("spec", params([_two_ranks("v1", "EAGLE3"), _two_ranks("v2", "EAGLE")]))
def test_both_ranks_switch_at_the_same_steps_and_the_text_is_the_plain_servers(rig: Rig, spec: Spec) -> None:
    with rig.serve(spec) as server:
        answers = drive(server.client, LOAD)
        server.wait_idle()
        assert server.set_state(speculative_disable_batch_threshold=3) == [True]
        assert server.dynamic()["threshold"] == 3
        with pytest.raises(Refused, match="must be 0 or more"):
            server.set_state(speculative_disable_batch_threshold=-1)
        again = drive(server.client, LOAD)
        server.wait_idle()
        steps = [[(step["batch"], step["on"]) for step in server.steps(rank)] for rank in (0, 1)]
        markers = server.markers()
        log = server.log_text()
        server.flush()
        assert server.pool().free == 8192
    assert len(steps[0]) > 400
    assert steps[0] == steps[1]
    assert {on for _, on in steps[0]} == {True, False}
    assert [
        {m["tp_rank"], m["tp_size"], m["worker"]} for m in sorted(markers, key=lambda m: m["tp_rank"])
    ] == [
        {"0", "2", WORKERS[spec.worker]},
        {"1", "2", WORKERS[spec.worker]},
    ]
    assert len(re.findall(r"TP[01]\] Dynamic speculation: threshold 5 -> 3", log)) == 2
    for texts in (answers, again):
        assert not differing({rid: answer.tokens for rid, answer in texts.items()}, rig.reference(LOAD))
