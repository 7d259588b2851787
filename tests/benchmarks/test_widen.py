"""Wider heads compute what the narrow ones did."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="widening models needs numpy (extra: bench)")
widen = pytest.importorskip("benchmarks.widen")


def rotate(x: np.ndarray, place: int, base: float = 10000.0) -> np.ndarray:
    width = x.shape[-1]
    angle = place / base ** (np.arange(0, width, 2) / width)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def scores(q: np.ndarray, k: np.ndarray, width: int, place: int) -> np.ndarray:
    q, k = (rotate(w.reshape(-1, width), p) for w, p in ((q, place), (k, 3)))
    return (q * k).sum(-1) / np.sqrt(width)


@pytest.mark.parametrize("place", [0, 1, 500])
def test_attention_scores_stay_the_same_with_rotation(place: int) -> None:
    rng = np.random.default_rng(0)
    wq, wk, x = rng.normal(size=(64, 24)), rng.normal(size=(64, 24)), rng.normal(size=24)
    before = scores(wq @ x, wk @ x, 16, place)
    after = scores(widen.widen_rows(wq, 16, 64, 2.0) @ x, widen.widen_rows(wk, 16, 64) @ x, 64, place)
    assert np.allclose(before, after)


def test_values_come_out_of_the_output_projection_unchanged() -> None:
    rng = np.random.default_rng(1)
    wv, wo, x = rng.normal(size=(64, 24)), rng.normal(size=(24, 64)), rng.normal(size=24)
    assert np.allclose(wo @ (wv @ x), widen.widen_columns(wo, 16, 64) @ (widen.widen_rows(wv, 16, 64) @ x))


def test_a_width_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot become"):
        widen.places(24, 64)
