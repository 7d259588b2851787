"""Random bases, random edits: the laws that hold for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from specctl.overlay import Overlay, OverlayConflict, apply_to_tree, compose, remove_from_tree
from specctl.overlay.draft import pin_edit
from specctl.overlay.model import BasePins, Change, FileEdit, Upstream, UpstreamStatus, sha256, split_lines
from specctl.overlay.patch import changes_between, format_patch, group_changes, parse_patch
from specctl.overlay.splice import splice, unsplice

PATH = "sglang/a.py"

# Few different lines, so that contexts repeat; CR LF, a form feed, bytes that are no UTF-8, diff-like lines.
LINES = [
    b"",
    b"x = 1",
    b"y = 2\r",
    b"def f():",
    b"    return 1",
    b"\xff\xfe\x00",
    b"-- a",
    b"+++ b",
    b"\x0c",
    b"\\ No",
    b"@@",
]
line = st.sampled_from(LINES)
ending = st.sampled_from([b"\n", b""])


@st.composite
def texts(draw: st.DrawFn, least: int = 0) -> bytes:
    lines = draw(st.lists(line, min_size=least, max_size=40))
    body = b"".join(text + b"\n" for text in lines)
    return body + draw(st.sampled_from([b"", b"last line without an end"]))


@st.composite
def edits(draw: st.DrawFn, base: bytes) -> bytes:
    """The base with a few runs of lines replaced, removed or added."""
    lines = split_lines(base)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(lines)))
        end = min(len(lines), start + draw(st.integers(0, 3)))
        lines[start:end] = [text + b"\n" for text in draw(st.lists(line, max_size=3))]
    return b"".join(lines)


@st.composite
def edited_texts(draw: st.DrawFn) -> tuple[bytes, bytes]:
    base = draw(texts())
    return base, draw(edits(base))


def overlay(name: str, base: bytes, changes: tuple[Change, ...], order: int = 1) -> Overlay:
    edit, _ = pin_edit(PATH, base, changes, f"edits/1.0/{name}.patch")
    return overlay_of(name, edit, order)


def overlay_of(name: str, edit: FileEdit, order: int = 1) -> Overlay:
    upstream = Upstream(UpstreamStatus.OURS)
    return Overlay(name, "s", "r", order, upstream, Path(), "0", {"1.0": BasePins("1.0", {PATH: edit})}, {})


@given(edited_texts())
def test_a_diff_that_is_written_and_read_again_makes_the_same_bytes(pair):
    base, new = pair
    changes = changes_between(base, new)
    assume(changes)
    hunks = group_changes(base, changes)
    path, again = parse_patch(format_patch(PATH, hunks))
    assert path == PATH
    assert again == hunks
    assert splice(base, [c for h in again for c in h.changes]) == new


@given(edited_texts())
def test_taking_changes_out_again_restores_the_base(pair):
    base, new = pair
    changes = changes_between(base, new)
    assert splice(base, changes) == new
    assert unsplice(new, changes) == base


@given(edited_texts(), st.data())
def test_nothing_is_taken_out_when_an_added_line_is_not_there(pair, data):
    base, new = pair
    changes = changes_between(base, new)
    added = [(c, sum(len(o.added) - len(o.removed) for o in changes if o.start < c.start)) for c in changes]
    added = [(c, shift) for c, shift in added if c.added]
    assume(added)
    change, shift = data.draw(st.sampled_from(added))
    lines = split_lines(new)
    lines[change.start + shift] = b"something else\n"
    assume(change.added[0] != b"something else\n")
    assert unsplice(b"".join(lines), changes) is None


@given(edited_texts(), st.data())
def test_changes_fit_no_other_bytes(pair, data):
    """Whatever else is at the removed lines: nothing is put in with fuzz."""
    base, new = pair
    changes = [c for c in changes_between(base, new) if c.removed]
    assume(changes)
    change = data.draw(st.sampled_from(changes))
    lines = split_lines(base)
    lines[change.start] = b"something else\n"
    assume(lines[change.start] != change.removed[0])
    assert splice(b"".join(lines), changes) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(edited_texts())
def test_apply_twice_then_remove_restores_the_bytes_on_disk(tmp_path, pair):
    base, new = pair
    changes = changes_between(base, new)
    assume(changes)
    target = tmp_path / PATH
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(base)
    comp = compose([overlay("one", base, changes)], "1.0")
    assert apply_to_tree(tmp_path, comp) == [PATH]
    assert target.read_bytes() == new
    assert apply_to_tree(tmp_path, comp) == []
    assert remove_from_tree(tmp_path, comp) == [PATH]
    assert target.read_bytes() == base
    assert remove_from_tree(tmp_path, comp) == []
    assert [p.name for p in target.parent.iterdir()] == [target.name]


@st.composite
def two_edits(draw: st.DrawFn) -> tuple[bytes, Change, Change]:
    """A base and two single changes of it, wherever they fall."""
    base = draw(texts(least=4))
    size = len(split_lines(base))
    whole = size - 1  # the last line may have no end; leave it alone
    found = []
    for name in (b"one", b"two"):
        start = draw(st.integers(0, whole))
        end = draw(st.integers(start, min(whole, start + 3)))
        added = tuple(b"# %s\n" % name for _ in range(draw(st.integers(0 if end > start else 1, 3))))
        found.append(Change(start, tuple(split_lines(base)[start:end]), added))
    return base, found[0], found[1]


def touch(a: Change, b: Change) -> bool:
    """Written apart from the code under test: no unchanged line is between them."""
    first, second = sorted((a, b), key=lambda c: (c.start, c.end))
    return second.start <= first.end


@given(two_edits())
def test_edits_that_overlap_always_raise_and_others_never_do(case):
    base, one, two = case
    pair = [overlay("one", base, (one,)), overlay("two", base, (two,))]
    if touch(one, two):
        with pytest.raises(OverlayConflict) as caught:
            compose(pair, "1.0")
        assert {name for p in caught.value.problems for name in p.overlays} == {"one", "two"}
        assert all(p.path == PATH and p.lines for p in caught.value.problems)
    else:
        assert compose(pair, "1.0").names == {"one", "two"}


@given(two_edits(), st.booleans())
def test_disjoint_edits_give_the_same_bytes_in_any_order(case, swap):
    base, one, two = case
    assume(not touch(one, two))
    orders = (2, 1) if swap else (1, 2)
    pair = [overlay("one", base, (one,), orders[0]), overlay("two", base, (two,), orders[1])]
    rendered = compose(pair, "1.0").render(lambda path: base)[PATH]
    lines = split_lines(base)
    for change in sorted((one, two), key=lambda c: -c.start):
        lines[change.start : change.end] = change.added
    assert rendered == b"".join(lines)
    assert compose(pair[::-1], "1.0").render(lambda path: base)[PATH] == rendered


@given(two_edits())
def test_every_subset_of_overlays_in_a_file_is_recognised_and_nothing_else(case):
    base, one, two = case
    assume(not touch(one, two))
    comp = compose([overlay("one", base, (one,)), overlay("two", base, (two,))], "1.0")
    for wanted in (set(), {"one"}, {"two"}, {"one", "two"}):
        data = comp.render_file(PATH, base, wanted)
        found = comp.recognise(PATH, data)
        assert found is not None
        assert found.base == base
        assert found.applied == wanted or comp.render_file(PATH, base, found.applied) == data
        assert comp.recognise(PATH, data + b"# one more line\n") is None


@given(edited_texts())
def test_a_broken_pin_is_refused_even_when_every_hunk_fits(pair):
    base, new = pair
    changes = changes_between(base, new)
    assume(changes)
    edit, _ = pin_edit(PATH, base, changes, "p")
    wrong = FileEdit(PATH, sha256(base + b"\n"), "p", edit.hunks, edit.functions)
    with pytest.raises(OverlayConflict):
        compose([overlay_of("one", wrong)], "1.0").render(lambda path: base)
