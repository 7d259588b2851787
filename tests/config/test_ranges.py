"""Ranges in names mean what they look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.config.ranges import MAX_NAMES, RangeError, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu", "gpu"),
        ("gpu-[1:1]", "gpu-1"),
        ("gpu-[01:03]", "gpu-01 gpu-02 gpu-03"),
        ("gpu-[08:11]", "gpu-08 gpu-09 gpu-10 gpu-11"),
        ("gpu-[8:11]", "gpu-8 gpu-9 gpu-10 gpu-11"),
        ("gpu-[0:2]", "gpu-0 gpu-1 gpu-2"),
        ("gpu-[00:02]", "gpu-00 gpu-01 gpu-02"),
        ("gpu-[099:101]", "gpu-099 gpu-100 gpu-101"),
        ("[a:c]", "a b c"),
        ("r[A:B]", "rA rB"),
        ("n[0:8:4]", "n0 n4 n8"),
        ("n[0:9:4]", "n0 n4 n8"),
        ("n[a:e:2]", "na nc ne"),
        ("r[a:b]-[1:2].x", "ra-1.x ra-2.x rb-1.x rb-2.x"),
    ],
)
def test_a_range_gives_these_names(text: str, names: str) -> None:
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize(
    "text",
    ["[2:1]", "[b:a]", "[01:1]", "[1:001]", "[1:]", "[:1]", "[:]", "[]", "[1]", "[1:2:0]", "[1:2:-1]",
     "[1:2:x]", "[1:2:1:1]", "[a:1]", "[aa:b]", "[a:B]", "[1:2", "1:2]", "[[1:2]]", "][", "[-1:1]", "[1.0:2]",
     "[\u0661:\u0662]", "[0:4096]", "[1:99]-[1:99]", "[1:9999999999]", "[1:9999999999999999999]"],
)  # fmt: skip
def test_a_range_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(RangeError) as caught:
        expand(text)
    assert caught.value.hint


letters = st.text("abcxyz-", max_size=5)


@given(letters, letters, st.integers(0, 5000), st.integers(0, 300), st.integers(1, 50), st.integers(0, 6))
def test_names_of_a_number_range_read_back_as_its_numbers(
    before: str, after: str, low: int, count: int, step: int, zeros: int
) -> None:
    high = low + count
    width = len(str(high)) + zeros if zeros else 0
    text = f"{before}[{str(low).zfill(width)}:{str(high).zfill(width)}:{step}]{after}"
    names = expand(text)
    middles = [name[len(before) : len(name) - len(after)] for name in names]
    assert [int(middle) for middle in middles] == list(range(low, high + 1, step))
    assert all(name == f"{before}{middle}{after}" for name, middle in zip(names, middles, strict=True))
    if width:
        assert {len(middle) for middle in middles} == {width}
    else:
        assert middles == [str(int(middle)) for middle in middles]


@given(st.lists(st.tuples(letters, st.integers(0, 9), st.integers(0, 9)), max_size=3))
def test_several_ranges_multiply_without_repeating_a_name(parts: list[tuple[str, int, int]]) -> None:
    text = "".join(f"{before}[{min(a, b)}:{max(a, b)}]" for before, a, b in parts)
    expected = 1
    for _, a, b in parts:
        expected *= abs(a - b) + 1
    names = expand(text)
    assert len(names) == len(set(names)) == expected


@given(st.text("[]:0123456789abc-", max_size=30))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand(text)
    except RangeError:
        return
    assert 1 <= len(names) <= MAX_NAMES
    assert not any("[" in name or "]" in name for name in names)
