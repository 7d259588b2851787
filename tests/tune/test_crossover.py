"""The crossover from planted curves: clear, none, noise, a dip."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.tune.crossover import Verdict, crossing, falling, find_crossover
from specctl.tune.model import Mode, Pair, Sample
from specctl.tune.recommend import recommend
from specctl.tune.values import Values

LEVELS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)


def measured(
    curve: Callable[[int], float], noise: float = 0.01, repetitions: int = 3, seed: int = 1
) -> list[Pair]:
    """Pairs whose ratio follows a curve, with relative noise in each measurement."""
    rng = random.Random(seed)

    def noisy(value: float) -> float:
        return value * math.exp(rng.gauss(0, noise))

    return [
        Pair(level, noisy(100 * level * curve(level)), noisy(100 * level))
        for level in LEVELS
        for _ in range(repetitions)
    ]


def clear(at: float) -> Callable[[int], float]:
    """1.6 at one request, 1 at `at`, falling by the logarithm of the level."""
    return lambda level: max(0.2, 1 - 0.6 * math.log(level / at) / math.log(at))


def test_a_clear_crossing_is_found_with_a_narrow_band_around_it() -> None:
    found = find_crossover(measured(clear(20)))
    assert found.verdict is Verdict.CROSSES
    assert found.at == pytest.approx(20, rel=0.05)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 20 < found.high
    assert found.high / found.low < 1.2
    assert found.against == ()


def test_more_noise_means_a_wider_band() -> None:
    widths = []
    for noise in (0.005, 0.02, 0.05):
        found = find_crossover(measured(clear(20), noise))
        assert found.low is not None
        assert found.high is not None
        widths.append(found.high / found.low)
    assert widths == sorted(widths)
    assert widths[2] > 1.1


@pytest.mark.parametrize("repetitions", [3, 5])
def test_the_band_holds_the_truth_about_as_often_as_it_says(repetitions: int) -> None:
    inside = 0
    for seed in range(100):
        found = find_crossover(measured(clear(20), 0.03, repetitions, seed), seed=seed)
        inside += (found.low or 0) <= 20 <= (found.high or math.inf)
    assert inside >= 88  # 95 promised; the straight line between two levels costs a little


def test_speculation_that_never_pays_is_switched_off_and_the_draft_is_said_to_be_useless() -> None:
    found = find_crossover(measured(lambda level: 0.84 - 0.006 * level))
    assert (found.verdict, found.at, found.share_never) == (Verdict.NEVER, None, 1.0)
    said = recommend(found, 128, [])
    assert (said.values.threshold, said.values.resume) == (0, 0)
    assert "never pays" in said.sentence
    assert "take the draft out" in said.advice


def test_speculation_that_always_pays_is_left_on() -> None:
    found = find_crossover(measured(lambda level: 1.8 - 0.005 * level))
    assert (found.verdict, found.at) == (Verdict.ALWAYS, None)
    assert recommend(found, 65, []).values.threshold == 64
    assert "not needed" in recommend(found, 65, []).advice
    beyond = recommend(found, 500, [])
    assert beyond.values.threshold == 64
    assert "above 64 requests nothing was measured" in beyond.sentence


@pytest.mark.parametrize("seed", range(20))
def test_pure_noise_is_not_taken_for_a_finding(seed: int) -> None:
    found = find_crossover(measured(lambda level: 1.0, 0.05, seed=seed))
    assert found.verdict is Verdict.UNCLEAR
    assert "repeat" in recommend(found, 128, []).advice


def test_a_dip_far_below_the_crossing_does_not_move_it_but_is_named() -> None:
    curve = clear(20)
    found = find_crossover(measured(lambda level: 0.93 if level == 4 else curve(level)))
    assert found.verdict is Verdict.CROSSES
    assert found.at == pytest.approx(20, rel=0.1)
    assert found.against == (4,)


def test_a_bump_after_the_crossing_is_not_followed_when_it_is_worth_less_than_what_lies_before() -> None:
    curve = clear(10)
    found = find_crossover(measured(lambda level: 1.04 if level == 48 else curve(level)))
    assert found.at == pytest.approx(10, rel=0.1)
    assert found.against == (48,)


def test_one_repetition_gives_the_neighbouring_levels_and_no_interval() -> None:
    found = find_crossover(measured(clear(20), 0.0, 1))
    assert (found.has_interval, found.low, found.high) == (False, 16.0, 24.0)
    assert "no interval" in recommend(found, 128, []).sentence


def test_the_same_measurements_give_the_same_band() -> None:
    assert find_crossover(measured(clear(20), 0.05)) == find_crossover(measured(clear(20), 0.05))


def test_one_level_is_refused() -> None:
    with pytest.raises(ValueError, match="two levels"):
        find_crossover([Pair(1, 2.0, 1.0)])


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=12))
def test_the_cut_is_the_one_with_the_largest_sum_of_gains(gains: list[float]) -> None:
    levels = [2**i for i in range(len(gains))]
    fitted = falling(gains, [1.0] * len(gains))
    assert all(a >= b for a, b in itertools.pairwise(fitted))
    assert sum(fitted) == pytest.approx(sum(gains), abs=1e-9)
    at = crossing(levels, fitted)

    def worth(cut: float) -> float:
        return sum(g if level <= cut else -g for level, g in zip(levels, gains, strict=True))

    best = max(worth(cut) for cut in [0, *levels])
    assert worth(at) == pytest.approx(best, abs=1e-9)


def sample(level: int, ttft: float, tpot: float) -> Sample:
    return Sample(Mode.OFF, "c", level, 0, 1.0, tpot, 1.0, ttft, 1, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("at", "limit", "ttft", "expected"),
    [
        (20, 128, 1, Values(19, 17, 4)),
        (20, 128, 95, Values(19, 17, 10)),
        (20, 128, 10_000, Values(19, 17, 32)),
        (2.5, 128, 1, Values(2, 1, 4)),
        (1.3, 128, 1, Values(1, 1, 4)),
        (40, 33, 1, Values(32, 28, 4)),
    ],
)
def test_the_proposal_stays_in_the_rules_of_the_overlay(
    at: float, limit: int, ttft: float, expected: Values
) -> None:
    found = find_crossover(measured(clear(at), 0.001))
    said = recommend(found, limit, [sample(16, ttft, 10)])
    assert said.values.threshold == pytest.approx(expected.threshold, abs=1)
    assert said.values.resume is not None
    assert min(1, said.values.threshold) <= said.values.resume <= said.values.threshold < limit
    assert said.values.resume_steps == expected.resume_steps
