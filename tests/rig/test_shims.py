"""The rig's stand-ins do what they stand in for."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from . import environment
from .cases import params
from .load import make
from .plugin import Rig
from .run import differing
from .server import Spec

pytestmark = pytest.mark.rig

TINY = make(streams=3, parallel=2, stream_tokens=60, bursts=2, plateau=3, plateau_tokens=45, gap=3, again=0)
TREE = ("--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8")
PAGES = ("--page-size", "16")


def checked(worker: str, algorithm: str, *flags: str) -> Spec:
    return Spec(worker, algorithm, threshold=2, flags=flags, env=(("RIG_TRITON", "check"),))


@pytest.mark.parametrize(
    "spec",
    [
        *params([checked("v1", "EAGLE"), checked("v2", "EAGLE", *PAGES)]),
        *params(
            [checked("v2", "EAGLE3"), checked("v1", "EAGLE3", *TREE), checked("v1", "EAGLE", *PAGES)],
            pytest.mark.slow,
        ),
    ],
)
def test_kernels_leave_the_same_tensors_as_in_tritons_own_interpreter(rig: Rig, spec: Spec) -> None:
    result = rig.run(spec, TINY)  # a difference ends the server
    assert not differing(result.texts, rig.reference(TINY))
    compared: dict[str, int] = {}
    for file in result.folder.glob("kernels-*.json"):
        compared.update(json.loads(file.read_text()))
    always = {
        "generate_draft_decode_kv_indices",
        "create_flashinfer_kv_indices_triton",
        "compute_position_kernel",
    }
    assert always <= compared.keys()
    assert ("alloc_extend_kernel" in compared) == ("--page-size" in spec.flags)
    assert all(times >= 5 for name, times in compared.items() if name in always)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec", params([Spec("v1", "EAGLE", threshold=1), Spec("v2", "EAGLE3", threshold=1)])
)
def test_attention_equals_the_triton_kernels(rig: Rig, spec: Spec) -> None:
    """Some seconds a step."""
    load = make(
        streams=1, parallel=1, stream_tokens=44, bursts=0, plateau=2, plateau_tokens=43, gap=0, again=0
    )
    slow = Spec(spec.worker, spec.algorithm, threshold=1, env=(("RIG_ATTENTION", "check"),))
    result = rig.run(slow, load)
    assert not differing(result.texts, rig.reference(load))
    assert {step["on"] for step in result.steps} == {True, False}


def test_the_sgl_kernel_stand_in_follows_its_definitions() -> None:
    if reason := environment.why_not():
        pytest.skip(reason)
    script = environment.SHIMS / "check_stand_ins.py"
    out = subprocess.run(
        [str(environment.python()), str(script)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(environment.SHIMS)},
    ).stdout
    found = json.loads(out)
    assert found["sampled_distance"] < 0.02
    assert (found["trees"], found["greedy"], found["renorm"]) == (80, 180, 40)
