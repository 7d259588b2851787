"""Pieces become rows: what a reader of the table would be told wrongly."""

from __future__ import annotations

from typing import Any

import pytest
from pieces import level, piece

from benchmarks import merge, rows


def test_the_ratio_is_over_the_better_of_plain_and_static() -> None:
    low = level(1, 0, plain=200, v1_static=300, v1_lazy=294)
    high = level(128, 0, plain=9000, v1_static=5000, v1_lazy=8730)
    rows = merge.levels([piece(low, high)])
    assert [(r["concurrency"], r["ratio"]) for r in rows] == [(1, 0.98), (128, 0.97)]
    assert rows[0]["worker"] == "EAGLEWorker"


def test_repetitions_give_the_median_and_the_spread_of_paired_ratios() -> None:
    blocks = [
        level(8, r, plain=100, v2_static=s, v2_lazy=d)
        for r, (s, d) in enumerate([(200, 190), (210, 210), (190, 199.5)])
    ]
    (row,) = merge.levels([piece(blocks[0], blocks[1]), piece(blocks[2])])
    assert (row["static"], row["dynamic"], row["repetitions"]) == (200, 199.5, 3)
    assert (row["ratio_low"], row["ratio"], row["ratio_high"]) == (0.95, 0.998, 1.05)


def test_a_row_needs_all_three_servers_of_one_run() -> None:
    assert (
        merge.levels([piece(level(8, 0, plain=1, v1_static=2)), piece(level(8, 0, plain=1, v1_lazy=2))]) == []
    )


def test_runs_with_other_settings_are_not_mixed_and_the_newest_counts() -> None:
    old = piece(level(8, 0, plain=100, v1_static=100, v1_lazy=50), date="2026-11-28")
    new = piece(level(8, 0, plain=100, v1_static=100, v1_lazy=99), fingerprint="b")
    (row,) = merge.levels([new, old])
    assert (row["ratio"], row["repetitions"]) == (0.99, 1)


def test_another_attention_backend_is_told_apart() -> None:
    """Whether from an experiment of its own or from the usual one with another --backend."""
    block = level(8, 0, plain=100, v2_static=110, v2_lazy=111)
    other = {"thresholds": {"v2": 24}, "accept_length": 2.5, "algorithm": "EAGLE3", "backend": "fa3"}
    slower = level(8, 0, plain=10, v2_static=10, v2_lazy=9)
    pieces = [
        piece(slower, experiment="fa3", setup=other, fingerprint="b", name="3"),
        piece(slower, setup={**other, "backend": "flashinfer"}, fingerprint="c", name="1"),
        piece(block, name="2"),
    ]
    result = merge.merge(pieces)
    assert [(r["plain"], r["ratio"]) for r in result["levels"]] == [(100, 1.009)]
    assert [(r["backend"], r["plain"], r["threshold"]) for r in result["backends"]] == [
        ("fa3", 10, 24),
        ("flashinfer", 10, 24),
    ]
    assert [r["static_over_plain"] for r in result["crossover"]] == [1.1]
    assert "triton" in result["model"]


def test_a_plain_server_without_overlap_stands_beside_the_others() -> None:
    blocks = [level(8, 0, plain=100, plain_normal=x, v1_static=90, v1_lazy=98) for x in (91, 93)]
    (row,) = merge.levels([piece(*blocks)])
    assert (row["plain"], row["plain_no_overlap"]) == (100, 92)


def test_how_accepted_lengths_were_drawn_is_told() -> None:
    setup = {**piece()["setup"], "accept_method": "match-expected"}
    assert "simulated at 2.5 (2 or 3 a step)," in merge.model_line([piece(setup=setup)])
    assert "simulated at 2.5," in merge.model_line([piece()])


def test_decode_speed_is_told_only_where_speculation_is_off() -> None:
    rows = merge.levels([piece(*(level(c, 0, plain=100, v1_static=90, v1_lazy=99) for c in (16, 24)))])
    assert "decode_ratio" not in rows[0]
    assert rows[1]["decode_ratio"] == 0.99


@pytest.mark.parametrize(("field", "other"), [("release", "0.5.9"), ("gpu", "NVIDIA H100")])
def test_pieces_of_different_machines_or_releases_are_refused(field: str, other: str) -> None:
    measured = level(32, 0, plain=100, v1_static=90, v1_lazy=99)
    with pytest.raises(ValueError, match=f"different {field}s"):
        merge.merge([piece(measured), piece(measured, **{field: other})])


def test_the_suggested_threshold_is_the_last_level_before_static_loses() -> None:
    blocks = [
        level(c, 0, plain=100, v2_static=s) for c, s in ((8, 140), (16, 120), (24, 101), (32, 95), (48, 102))
    ]
    result = merge.merge([piece(*blocks, experiment="crossover")])
    assert result["suggested_thresholds"] == {"EAGLEWorkerV2": 24}


def returned(gaps: list[tuple[float, int]]) -> dict[str, Any]:
    pair = {
        "on_tokens": 25,
        "off_tokens": 50,
        "steps": 10,
        "accepted": 14,
        "fresh_steps": 10,
        "fresh_accepted": 15,
        "same_text": True,
    }
    servers = {"v2-lazy": {"pairs": [pair, pair], "gaps": [gaps], "dynamic": None}}
    return {"id": "r", "kind": "return", "rep": 0, "servers": servers}


def test_acceptance_after_a_return_is_over_a_draft_that_was_never_off() -> None:
    (row,) = rows.returns([piece(returned([(5, 1), (5, 1), (12, 3), (7, 2)]), experiment="return")])
    assert (row["accept_after"], row["accept_never_off"], row["ratio"]) == (2.4, 2.5, 0.96)
    assert row["ratio_first_40_tokens"] == 0.96


def test_the_first_step_back_is_told_apart_from_the_ones_around_it() -> None:
    steps = rows.return_steps([(5, 1), (6, 1), (12, 3), (7, 2), (8, 1)])
    assert steps == {"off": [5, 6], "first": [12], "on": [7, 8]}


def test_identity_leaves_out_the_reference_itself_and_sums_the_rest() -> None:
    block = {
        "id": "i",
        "kind": "identity",
        "concurrency": 8,
        "servers": {
            "plain": {"same": 16, "of": 16, "first_difference": []},
            "plain again": {"same": 15, "of": 16, "first_difference": [40]},
            "v1-lazy": {"same": 14, "of": 16, "first_difference": [10, 90]},
        },
    }
    found = rows.identity([piece(block, block)])
    assert [(r["server"], r["same"], r["of"], r["median_first_difference"]) for r in found] == [
        ("plain again", 30, 32, 40),
        ("v1-lazy", 28, 32, 50),
    ]


def test_servers_that_never_started_are_told_and_do_not_hide_what_others_measured() -> None:
    dead = piece(release=None, gpu=None, errors=["plain did not start: out of memory\nmore"])
    dead["blocks"] = []
    alive = piece(level(32, 0, plain=100, v1_static=90, v1_lazy=99))
    result = merge.merge([dead, alive])
    assert len(result["levels"]) == 1
    assert result["errors"] == ["plain did not start: out of memory"]
    with pytest.raises(ValueError, match="finished block"):
        merge.merge([dead])
