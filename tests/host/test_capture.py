"""Output is bounded: the beginning and the end survive, lines are cut, nothing is counted twice."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from specctl.host.capture import LONGEST_LINE, Capture, Lines

BLOCKS = st.lists(st.binary(max_size=40), max_size=30)


@given(BLOCKS, st.integers(2, 60))
def test_what_is_kept_is_the_head_and_the_tail_of_what_came(blocks: list[bytes], limit: int) -> None:
    capture = Capture(limit)
    for block in blocks:
        capture.feed(block)
    whole = b"".join(blocks)
    if len(whole) <= limit:
        assert capture.value() == whole
        assert capture.dropped == 0
        return
    head, tail = whole[: limit // 2], whole[len(whole) - (limit - limit // 2) :]
    gap = f"\n[... {len(whole) - limit} bytes left out ...]\n".encode()
    assert capture.value() == head + gap + tail
    assert capture.dropped == len(whole) - limit


@given(BLOCKS)
def test_lines_are_those_of_the_whole_however_it_is_cut(blocks: list[bytes]) -> None:
    seen: list[bytes] = []
    lines = Lines(seen.append)
    for block in blocks:
        lines.feed(block)
    lines.close()
    whole = b"".join(blocks)
    expected = whole.split(b"\n")
    assert seen == (expected[:-1] if expected[-1] == b"" else expected)


def test_a_line_is_cut_at_its_bound_and_the_next_is_whole() -> None:
    seen: list[bytes] = []
    lines = Lines(seen.append)
    for _ in range(10):
        lines.feed(b"x" * (LONGEST_LINE // 4))
    lines.feed(b"\nnext\n")
    assert [len(line) for line in seen] == [LONGEST_LINE, 4]


def test_nothing_is_handed_over_after_the_stop() -> None:
    seen: list[bytes] = []

    def first(line: bytes) -> bool:
        seen.append(line)
        return False

    lines = Lines(first)
    lines.feed(b"a\nb\n")
    lines.feed(b"c\n")
    lines.close()
    assert seen == [b"a"]
    assert lines.stopped


def test_memory_stays_bounded_with_many_tiny_blocks() -> None:
    capture = Capture(1000)
    for _ in range(100_000):
        capture.feed(b"ab")
    value = capture.value()
    assert re.sub(rb"\n\[.*\]\n", b"", value) == b"ab" * 500
    assert capture.dropped == 199_000
