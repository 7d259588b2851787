"""The draft model's KV cache after a time off, position by position, against a server that was never off."""

from __future__ import annotations

import json
import subprocess

import pytest

from . import acceptance, environment
from .cases import ALGORITHMS, LOAD, MATRIX, THRESHOLD, WORKERS, never_off, sliced
from .load import Load
from .plugin import Rig
from .run import differing
from .server import Spec

pytestmark = pytest.mark.rig

# A request may finish while speculation is off, with up to 16 tokens that the draft has not seen, and some
# more are in flight in either run.
NEWEST = 24


def specs(sync: str) -> list[object]:
    if sync == "lazy":  # the default: these servers have run for the matrix
        return sliced([spec for spec in MATRIX if spec.draft == "good" and spec.radix])
    flags = ("--speculative-disable-draft-sync", sync)
    return sliced(
        [
            Spec(w, a, threshold=THRESHOLD, flags=flags, hooks=("probe", "draft_kv"))
            for w in WORKERS
            for a in ALGORITHMS
        ]
    )


def stale_positions(rig: Rig, spec: Spec, load: Load = LOAD) -> dict[str, dict[str, float]]:
    folders = [str(rig.run(s, load).folder / "draft_kv") for s in (spec, never_off(spec))]
    script = str(environment.HERE / "compare_kv.py")
    out = subprocess.run(
        [str(environment.python()), script, *folders, str(NEWEST)], check=True, capture_output=True, text=True
    ).stdout
    found = json.loads(out)
    assert len(found) >= 4
    assert all(stream["positions"] > 100 for stream in found.values())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("spec", [*specs("lazy"), *specs("warm")])
def test_nothing_is_stale(rig: Rig, spec: Spec) -> None:
    found = stale_positions(rig, spec)
    assert {rid: stream for rid, stream in found.items() if stream["stale"]} == {}
    assert max(stream["largest"] for stream in found.values()) < 1e-4


@pytest.mark.parametrize("spec", specs("cold"))
def test_cold_leaves_holes_as_documented_so_the_comparison_can_see_them(rig: Rig, spec: Spec) -> None:
    found = stale_positions(rig, spec)
    assert sum(stream["stale"] for stream in found.values()) > 100


@pytest.mark.parametrize("spec", [*specs("warm"), *specs("cold")])
def test_text_is_the_plain_servers(rig: Rig, spec: Spec) -> None:
    assert not differing(rig.run(spec, LOAD).texts, rig.reference(LOAD))


@pytest.mark.parametrize("spec", specs("warm"))
def test_warm_accepts_as_if_never_off(rig: Rig, spec: Spec) -> None:
    result = acceptance.compare(rig.run(spec, LOAD).steps, rig.run(never_off(spec), LOAD).steps)
    assert result.matched >= 80
    assert result.at_least(0.97), result
