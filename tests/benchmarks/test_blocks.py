"""Blocks: how long they run, and that one which fails leaves the server as it found it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the load generator needs aiohttp (extra: test)")

from benchmarks import crew, experiments, load
from benchmarks.blocks import Level

SETUP = crew.eight_b(Path("m"))
TRIO = ("plain", "v2-static", "v2-lazy")
KEPT = sorted((Path(experiments.__file__).parent / "results").glob("*h200*.json"))


def level(concurrency: int, output: int = 128, waves: int = 2, **changes: Any) -> Level:
    return Level(TRIO, concurrency, 256, output, waves, 1, 0, **changes)


@pytest.mark.parametrize(("concurrency", "output"), [(c, o) for c in crew.LEVELS for o in (128, 512)])
def test_a_low_level_is_measured_over_enough_draws(concurrency: int, output: int) -> None:
    block = level(concurrency, output)
    assert block.requests % concurrency == 0, "a wave that is not full measures a smaller batch"
    if concurrency <= 24:
        assert block.requests / concurrency * output >= 512
    assert block.requests * output >= 1024


def test_a_high_level_has_the_waves_that_it_was_given_and_so_has_any_level_on_demand() -> None:
    assert level(128).requests == 256
    assert level(1, exact=True).requests == 2
    (block,) = experiments.ALL["levels"].blocks(TRIO, SETUP, experiments.Options(TRIO, (1,), 1, waves=3))
    assert block.requests == 3  # type: ignore[attr-defined]


def test_a_start_is_measured_by_one_request() -> None:
    first, *_ = experiments.ALL["startup"].blocks(("v2-lazy",), SETUP, experiments.Options())
    assert first.requests == 1  # type: ignore[attr-defined]


@pytest.mark.skipif(not KEPT, reason="no result of an H200 is kept")
def test_estimates_are_near_what_an_h200_took() -> None:
    """Too low, and a block runs past the deadline; too high, and time is left unused."""
    for row in json.loads(KEPT[-1].read_text())["levels"]:
        block = level(row["concurrency"], row["output_tokens"])
        tokens = block.requests * block.output
        took = sum(tokens / row[role] for role in ("plain", "static", "dynamic"))
        assert 0.85 * took < block.estimate_s < 1.5 * took, row


def test_only_switched_servers_are_held_at_the_threshold() -> None:
    blocks = experiments.ALL["hold"].blocks(TRIO, SETUP, experiments.Options(levels=(32, 33)))
    assert [(b.servers, b.hold) for b in blocks] == [(("v2-lazy",), 32), (("v2-lazy",), 33)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["closed", "varying"])
def test_a_failed_request_takes_the_others_off_the_server(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def send(http: Any, url: str, request: load.Request) -> load.Done:
        try:
            await asyncio.sleep(0.01 if request.tokens == 1 else 60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        raise load.LoadError("the server is gone")

    monkeypatch.setattr(load, "send", send)
    monkeypatch.setattr(load, "stream", send)
    requests = [load.Request((1,), n) for n in (1, 2, 3)]

    async def one() -> None:
        if kind == "closed":
            await load.closed_loop(None, "u", requests, 3)  # type: ignore[arg-type]
        else:
            await load.varying_loop(None, "u", lambda _: 3, 5, requests.__getitem__, 8)  # type: ignore[arg-type]

    with pytest.raises(load.LoadError):
        asyncio.run(one())
    assert len(ended) == 2
