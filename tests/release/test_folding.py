"""Names of many hosts as ranges: nothing lost, and given back as --hosts takes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.cli.folding import alike, folded, span
from specctl.config.ranges import expand


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("", ""),
        ("a", "a"),
        ("gpu-01 gpu-02 gpu-03 db", "gpu-[01:03], db"),
        ("gpu-1 gpu-2", "gpu-1, gpu-2"),
        ("gpu-8 gpu-9 gpu-10 gpu-11", "gpu-8, gpu-9, gpu-10, gpu-11"),
        ("a1.x a2.x a3.x a4.y", "a[1:3].x, a4.y"),
        ("h3 h2 h1", "h3, h2, h1"),
    ],
)
def test_ranges_of_names(names: str, text: str) -> None:
    assert folded(names.split()) == text


name = st.one_of(
    st.from_regex(r"[a-z]{1,3}-?[0-9]{1,3}(\.[a-z]{1,2})?", fullmatch=True), st.sampled_from(["db", "a"])
)


@given(st.lists(name, max_size=30), st.integers(0, 990), st.integers(0, 9))
def test_what_was_folded_unfolds_to_the_same_names(some: list[str], first: int, count: int) -> None:
    names = [*some, *(f"gpu-{n:03}" for n in range(first, first + count))]
    parts = [part for part in folded(names).split(", ") if part]
    assert [found for part in parts for found in expand(part)] == names


def test_alike_things_come_together_in_the_order_of_their_first() -> None:
    assert alike(["b1", "a1", "b2"], lambda text: text[0]) == [["b1", "b2"], ["a1"]]


def test_seconds_that_differ_are_a_span() -> None:
    assert (span([61.31, 61.28]), span([59.0, 61.3])) == ("61.3", "59.0 to 61.3")
