"""From looks at a server to what an operator should know."""

from __future__ import annotations

from typing import Any

import pytest

from specctl.tune.live import Look
from specctl.tune.watching import Watched, warnings_of

GOOD: dict[str, Any] = {
    "state": "on",
    "batch": 3,
    "threshold": 16,
    "resume": 14,
    "resume_steps": 4,
    "switches": 0,
    "on_steps": 1000,
    "off_steps": 10,
    "accept_length_on": 2.5,
    "decode_graphs": True,
}


def at(seconds: float, limit: int = 48, device: str = "cuda", graphs: bool = True, **state: Any) -> Look:
    rank = {
        "dynamic": {**GOOD, **state},
        "effective_max_running_requests_per_dp": limit,
        "last_gen_throughput": 100.0,
    }
    return Look(1000.0 + seconds, None, (rank,), device, graphs)


def test_a_healthy_server_warns_of_nothing() -> None:
    moment = Watched("h", "s").see(at(0))
    assert (moment.state, moment.batch, moment.accept_length, moment.tokens_per_s) == ("on", 3, 2.5, 100.0)
    assert moment.warnings == ()


@pytest.mark.parametrize(
    ("look", "says"),
    [
        (at(0, decode_graphs=False), "no CUDA graphs while off"),
        (at(0, accept_length_on=1.05), "the draft is useless"),
        (at(0, limit=16), "the threshold is dead: 16 requests run at most"),
        (Look(0.0, None, (at(0).ranks[0], at(0, threshold=8).ranks[0])), "different thresholds"),
    ],
)
def test_what_is_wrong_is_said(look: Look, says: str) -> None:
    assert [w for w in warnings_of(look, None) if says in w], warnings_of(look, None)


@pytest.mark.parametrize(
    "look",
    [
        at(0, decode_graphs=False, device="cpu"),  # there are no graphs to miss
        at(0, decode_graphs=False, graphs=False),  # switched off by the operator
        at(0, accept_length_on=1.0, on_steps=3),  # too few steps to say
        at(0, accept_length_on=None),
        at(0, accept_length_on=1.0, threshold=0, resume=0),  # switched off already
    ],
)
def test_what_is_as_asked_is_no_warning(look: Look) -> None:
    assert warnings_of(look, None) == []


def test_switches_are_counted_over_a_minute_and_many_of_them_are_flapping() -> None:
    watched = Watched("h", "s")
    assert watched.see(at(0)).per_minute is None
    assert watched.see(at(2, switches=2)).per_minute == 2.0, "one switch after two seconds is no rate of 60"
    for second in range(4, 180, 2):
        moment = watched.see(at(second, switches=second // 2))
    assert moment.per_minute == pytest.approx(30.0, rel=0.05)
    assert "flapping, 30 switches a minute" in moment.warnings[0]


def test_old_switches_are_forgotten() -> None:
    watched = Watched("h", "s")
    watched.see(at(0))
    watched.see(at(10, switches=60))
    for second in range(12, 200, 2):
        moment = watched.see(at(second, switches=60))
    assert moment.per_minute == 0.0


def test_a_restart_begins_the_count_anew() -> None:
    watched = Watched("h", "s")
    watched.see(at(0, switches=500))
    watched.see(Look(error="nobody listens there"))
    assert watched.see(at(20, switches=1)).per_minute is None
    assert watched.see(at(30, switches=0)).per_minute is None


def test_a_line_is_new_only_when_something_happened() -> None:
    watched = Watched("h", "s")
    first, second = watched.see(at(0)), watched.see(at(2, batch=5, on_steps=1200))
    assert first.key == second.key
    assert watched.see(at(4, state="off", batch=20)).key != first.key
    assert watched.see(at(6, threshold=8)).key != first.key


def test_a_server_that_is_down_or_has_no_switch_says_so() -> None:
    assert Watched("h", "s").see(Look(error="nobody listens there")).line == "h s: down; nobody listens there"
    assert Watched("h", "s").see(Look(ranks=({"dynamic": None},))).state == "no switch"
