"""Configurations and loads put together by chance (seeded): what nobody thought of combining."""

from __future__ import annotations

import random
from typing import Any

import pytest

from . import rule
from .load import Load, make
from .plugin import Rig
from .run import LEAK, differing
from .server import Spec

pytestmark = [pytest.mark.rig, pytest.mark.slow]


def by_chance(seed: int) -> tuple[Spec, Load, int]:
    """A server, a load that crosses its threshold, and the size of its pool."""
    rng = random.Random(seed)
    worker = rng.choice(["v1", "v2"])
    parallel = rng.randrange(2, 6)
    threshold = parallel + rng.randrange(0, 2)
    page, radix = rng.choice([1, 1, 16, 32]), rng.random() < 0.6
    pool = rng.choice([8192, 8192, 1024, 768])
    flags = [
        *("--speculative-disable-draft-sync", rng.choice(["lazy", "lazy", "warm", "cold"])),
        *("--speculative-resume-batch-threshold", str(rng.randrange(max(1, parallel - 1), threshold + 1))),
        *("--speculative-resume-steps", str(rng.randrange(1, 9))),
        *("--page-size", str(page)),
        *("--max-total-tokens", str(pool)),
        *("--max-running-requests", str(rng.randrange(threshold + 1, 17))),
    ]
    if rng.random() < 0.4:
        flags += ["--chunked-prefill-size", str(rng.choice([16, 32, 64]) if page < 32 else 64)]
    if worker == "v1" and page == 1 and rng.random() < 0.3:
        flags += ["--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8"]
    elif rng.random() < 0.3:
        steps = rng.choice([1, 2, 5])
        flags += ["--speculative-num-steps", str(steps), "--speculative-num-draft-tokens", str(steps + 1)]
    hooks: tuple[str, ...] = ("probe", "retract") if rng.random() < 0.3 else ("probe",)
    shape: dict[str, Any] = {
        "streams": 40,
        "parallel": parallel,
        "stream_tokens": rng.choice([90, 160, 240]),
        "bursts": rng.randrange(4, 10),
        "plateau": rng.randrange(threshold + 1, threshold + 6),
        "plateau_tokens": rng.choice([60, 150]),
        "gap": rng.randrange(2, 20),
        "seed": seed,
    }
    spec = Spec(
        worker,
        rng.choice(["EAGLE", "EAGLE3"]),
        rng.choice(["good", "good", "rand"]),
        threshold=threshold,
        radix=radix,
        flags=tuple(flags),
        hooks=hooks,
    )
    return spec, make(**shape), pool


def _named(seed: int) -> object:
    spec, _, _ = by_chance(seed)
    return pytest.param(seed, id=f"{spec.worker}-{spec.algorithm}-{seed}")


@pytest.mark.parametrize("seed", [_named(seed) for seed in range(100, 132)])
def test_a_configuration_by_chance_keeps_text_slots_and_rule(rig: Rig, seed: int) -> None:
    spec, load, pool = by_chance(seed)
    result = rig.run(spec, load)
    about = f"seed {seed}: {spec}"
    assert not differing(result.texts, rig.reference(load)), about
    assert (result.pool_before.free, result.pool_flushed.free) == (pool, pool), about
    assert result.pool_flushed.rows == result.pool_before.rows, about
    assert LEAK not in result.log, about
    (marker,) = result.markers
    values = [int(marker[name]) for name in ("threshold", "resume", "resume_steps")]
    batches = [step["batch"] for step in result.steps]
    assert [step["on"] for step in result.steps] == rule.follow(batches, *values), about
    assert any(not step["on"] for step in result.steps), about
