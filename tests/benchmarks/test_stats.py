"""The numbers that the table rests on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import stats

PREFILL = "[2026-11-29 15:00:00] Prefill batch, #new-seq: 4, #new-token: 1024"


def decode(running: int, speed: float, graph: bool = True) -> str:
    return (
        f"[2026-11-29 15:00:00 TP0] Decode batch, #running-req: {running}, #token: 900, token usage: 0.02, "
        f"accept len: 1.00, accept rate: 0.25, cuda graph: {graph}, gen throughput (token/s): {speed}, "
        "#queue-req: 0"
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_lies_between_the_extremes(values: list[float], q: float) -> None:
    found = stats.percentile(values, q)
    assert found is not None
    assert min(values) - 1e-6 <= found <= max(values) + 1e-6


@pytest.mark.parametrize(("q", "expected"), [(0, 1), (50, 2.5), (100, 4), (75, 3.25)])
def test_percentiles_are_linear_between_samples(q: float, expected: float) -> None:
    assert stats.percentile([4, 1, 3, 2], q) == pytest.approx(expected)


def test_nothing_measured_is_none_and_not_zero() -> None:
    assert stats.median([]) is None
    assert stats.summary([])["max"] is None


def test_decode_speed_leaves_out_other_batch_sizes_and_intervals_with_a_prefill() -> None:
    lines = [decode(32, 10), decode(32, 5000), PREFILL, decode(32, 700), decode(32, 5100), decode(31, 4000)]
    assert stats.decode_speeds(lines, 32) == [5000, 5100]


def test_a_decode_line_without_a_graph_lowers_the_share() -> None:
    assert stats.graph_share([decode(4, 1), decode(4, 1, graph=False), PREFILL]) == 0.5


def test_a_chunk_of_three_tokens_counts_as_three_latencies() -> None:
    chunks = [(1.000, 1), (1.030, 4), (1.040, 5)]
    assert stats.token_latencies([chunks]) == pytest.approx([10, 10, 10, 10])


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [([1, 2, 3], [1, 2, 3], None), ([1, 2, 3], [1, 9, 3], 1), ([1, 2], [1, 2, 3], 2), ([], [], None)],
)
def test_the_first_difference_of_two_texts(one: list[int], other: list[int], place: int | None) -> None:
    assert stats.first_difference(one, other) == place
