"""Many hosts at once: one bad host does not hide what the others said."""

from __future__ import annotations

import threading
import time

import pytest

from specctl.host.errors import Unreachable
from specctl.host.parallel import Outcome, each


def test_one_of_three_fails_and_there_are_three_outcomes() -> None:
    def ask(name: str) -> str:
        if name == "b":
            raise Unreachable("b is away")
        return name.upper()

    done: list[str] = []
    outcomes = each(["a", "b", "c"], ask, on_done=lambda outcome: done.append(outcome.key))
    assert [(o.key, o.value, o.error and o.error.message) for o in outcomes] == [
        ("a", "A", None),
        ("b", None, "b is away"),
        ("c", "C", None),
    ]
    assert sorted(done) == ["a", "b", "c"]


def test_hosts_are_asked_at_the_same_time_but_not_more_than_allowed() -> None:
    together = threading.Barrier(4, timeout=10)
    running: list[int] = []
    most: list[int] = []

    def ask(number: int) -> None:
        running.append(number)
        most.append(len(running))
        together.wait()
        running.remove(number)

    each(range(8), ask, width=4)
    assert max(most) == 4


def test_no_hosts_are_no_work() -> None:
    assert each([], str) == []


def test_an_interrupt_does_not_wait_for_a_host_that_hangs() -> None:
    hanging = threading.Event()

    def ask(number: int) -> int:
        if number:
            hanging.wait(20)
        return number

    def interrupt(outcome: Outcome[int, int]) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        each([0, 1], ask, on_done=interrupt)
    assert time.monotonic() - began < 10
    hanging.set()


def test_what_nobody_thought_of_on_one_host_hides_no_other_and_says_where_it_came_from() -> None:
    one, other = each([0, 1], lambda number: 1 // number)
    assert other.value == 1
    assert one.error is not None
    assert one.error.code == "internal"
    assert "ZeroDivisionError" in one.error.message
    assert one.error.context["host"] == "0"
    assert "parallel.py" in one.error.context["where"]
