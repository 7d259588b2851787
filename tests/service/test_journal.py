"""Reading the journal: whatever bytes a server writes, and whatever journald lost, the answer is right."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.service.logs import as_log_slice, journal_line
from specctl.service.onhost import journal, journal_entry, journal_limits

UNIT = "specctl-main.service"
NEW, OLD = "a" * 32, "b" * 32
MARK = "Dynamic speculation disable enabled"


def entry(text: Any, seq: int, *, invocation: str = NEW, unit: str = UNIT, **more: Any) -> dict[str, Any]:
    return {
        "__CURSOR": f"s=feed;i={seq:x};b=1;m=1;t=1;x=1",
        "__REALTIME_TIMESTAMP": "1700000000000000",
        "_SYSTEMD_UNIT": unit,
        "_SYSTEMD_INVOCATION_ID": invocation,
        "MESSAGE": text,
        **more,
    }


def suppressed(count: int, seq: int, unit: str = UNIT) -> dict[str, Any]:
    return {
        **entry(f"Suppressed {count} messages from {unit}", seq, unit="systemd-journald.service"),
        "MESSAGE_ID": journal_entry.DROPPED_ID,
        "N_DROPPED": str(count),
        "OBJECT_SYSTEMD_UNIT": unit,
        "_COMM": "systemd-journal",
    }


def read(tmp_path: Path, entries: list[Any], *, cursor: int | None = None, **more: Any) -> dict[str, Any]:
    path = tmp_path / "entries"
    lines = [e if isinstance(e, bytes) else json.dumps(e).encode() for e in entries]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    params: dict[str, Any] = {
        "unit": UNIT,
        "user": False,
        "uid": 0,
        "cursor": "" if cursor is None else f"s=feed;i={cursor:x};b=1;m=1;t=1;x=1",
        "invocation": NEW,
        "match": [MARK],
        "limit": 100,
        "tail": 5,
        "timeout_s": 20,
        "full": True,
        "journalctl": [sys.executable, str(Path(__file__).with_name("fake_journalctl.py")), str(path)],
    }
    return journal.read({**params, **more})


def test_a_marker_before_the_cursor_is_earlier_and_not_a_line(tmp_path: Path) -> None:
    found = read(tmp_path, [entry(MARK, 1, invocation=OLD), entry("x", 2), entry("y", 3)], cursor=2)
    assert found["lines"] == []
    assert [line["invocation"] for line in found["earlier"]] == [OLD]
    assert found["dropped"] == 0


def test_a_marker_of_another_invocation_after_the_cursor_is_not_a_line(tmp_path: Path) -> None:
    found = read(tmp_path, [entry("x", 1), entry(MARK, 2, invocation=OLD), entry("y", 3)], cursor=1)
    assert (found["lines"], len(found["earlier"]), found["seen"], found["own"]) == ([], 1, 2, 1)


def test_a_line_of_another_unit_is_nothing_even_when_journalctl_lets_it_through(tmp_path: Path) -> None:
    found = read(tmp_path, [entry("x", 1), entry(MARK, 2, unit="other.service"), entry("y", 3)], cursor=1)
    assert (found["lines"], found["earlier"], found["seen"]) == ([], [], 1)


def test_dropped_lines_of_this_unit_are_counted_and_those_of_others_are_not(tmp_path: Path) -> None:
    entries = [entry("x", 1), suppressed(7, 2), suppressed(5, 3, "other.service"), entry("y", 4)]
    assert read(tmp_path, entries, cursor=1)["dropped"] == 7


def test_a_gap_in_the_journals_numbers_counts_as_dropped_when_the_marker_is_missing(tmp_path: Path) -> None:
    entries = [entry("x", 1), entry("y", 2), entry("z", 6)]
    assert read(tmp_path, entries, cursor=1)["dropped"] == 3
    assert read(tmp_path, [entry("x", 1), entry(MARK, 2), entry("z", 6)], cursor=1)["dropped"] == 0
    assert read(tmp_path, entries, cursor=1, full=False)["dropped"] == 0


def test_numbers_that_two_journal_files_share_are_no_gap() -> None:
    cursors = ["s=a;i=1;b=1", "s=b;i=2;b=1", "s=a;i=3;b=1", "s=b;i=4;b=1", "s=a;i=9;b=2"]
    assert journal_entry.sequence_gaps(cursors) == 0
    assert journal_entry.sequence_gaps(cursors[::2]) == 1


def test_a_burst_in_which_journald_may_have_dropped_lines_makes_the_count_unknown(tmp_path: Path) -> None:
    (tmp_path / "journald.conf").write_text("[Journal]\n#RateLimitBurst=1\nRateLimitBurst=20\n")
    many = [entry("x", i) for i in range(25)]
    found = read(tmp_path, many, etc=str(tmp_path))
    assert found["dropped"] is None
    assert "journald may drop" in found["reason"]
    slow = [{**e, "__REALTIME_TIMESTAMP": str(10**15 + i * 10**7)} for i, e in enumerate(many)]
    assert read(tmp_path, slow, etc=str(tmp_path))["dropped"] == 0
    assert read(tmp_path, many, etc="/none")["dropped"] == 0


def test_a_units_own_rate_limit_wins_over_journalds(tmp_path: Path) -> None:
    (tmp_path / f"log-rate-limit-interval:{UNIT}").symlink_to("1000000")
    (tmp_path / f"log-rate-limit-burst:{UNIT}").symlink_to("1000000000")
    (tmp_path / "journald.conf").write_text("RateLimitIntervalSec=2min\nRateLimitBurst=0\n")
    run = str(tmp_path)
    assert journal_limits.rate_limit(UNIT, False, run, run) == (1.0, 10**9)
    assert journal_limits.rate_limit(UNIT, True, run, run) == (120.0, 0)
    assert journal_limits.rate_limit("other.service", False, run, "/none") == (30.0, 10000)


def test_a_cursor_that_was_rotated_away_makes_the_slice_incomplete(tmp_path: Path) -> None:
    found = read(tmp_path, [entry("x", 5), entry("y", 6)], cursor=2)
    assert not found["complete"]
    assert "no longer holds" in found["reason"]


def test_bytes_that_are_not_utf8_are_counted_and_the_marker_in_them_is_found(tmp_path: Path) -> None:
    data = list(b"caf\xe9 " + MARK.encode() + b": tp_rank=0")
    found = read(tmp_path, [entry("x", 1), entry(data, 2)], cursor=1)
    assert found["not_utf8"] == 1
    assert MARK in found["lines"][0]["text"]
    assert not found["lines"][0]["utf8"]


def test_a_flood_keeps_memory_and_answer_bounded_and_says_what_is_left_out(tmp_path: Path) -> None:
    entries = [entry("x", 0), *(entry(MARK + " " + "\x07" * 5000, i) for i in range(1, 1501))]
    found = read(tmp_path, entries, cursor=0, limit=1000)
    assert len(json.dumps(found)) < 6 << 20
    assert not found["complete"]
    assert "older matching lines" in found["reason"]
    assert found["seen"] == 1500
    assert found["lines"][-1]["cut"] is False


def test_broken_entries_are_passed_over(tmp_path: Path) -> None:
    bad = [b"{", b'{"MESSAGE": ', b"[1]", b"null", b"\xff\xfe", b"-- No entries --", b"{" * 3000]
    found = read(
        tmp_path, [entry("x", 1), *bad, entry(None, 2), entry([[1, 2], "a"], 3), entry(MARK, 4)], cursor=1
    )
    assert [line["text"] for line in found["lines"]] == [MARK]


def test_a_journal_that_hangs_is_cut_off_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "entries"
    path.write_bytes(json.dumps(entry("x", 1)).encode())
    fake = [sys.executable, str(Path(__file__).with_name("fake_journalctl.py")), str(path), "--hang"]
    found = read(tmp_path, [entry("x", 1)], timeout_s=0.5, journalctl=fake, match=[])
    assert not found["complete"]
    assert "longer than 0.5 s" in found["reason"]


def test_a_missing_journal_says_why_instead_of_no_marker(tmp_path: Path) -> None:
    fake = ["sh", "-c", "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1"]
    found = read(tmp_path, [], journalctl=fake)
    assert not found["complete"]
    assert "insufficient permissions" in found["reason"]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("text", b"text"),
        (None, b""),
        ([99, 97, 102, 233], b"caf\xe9"),
        (["one", "two"], b"one\ntwo"),
        ([[233], "two"], b"\xe9\ntwo"),
        (7, b""),
        ({}, b""),
        ([], b""),
        ([300], b""),
        ([True, False], b"\n"),
    ],
)
def test_every_form_of_a_message_field_becomes_bytes(value: Any, data: bytes) -> None:
    assert journal_entry.message_bytes(value) == data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
NAMES = ("MESSAGE", "_SYSTEMD_UNIT", "_SYSTEMD_INVOCATION_ID", "MESSAGE_ID", "N_DROPPED", "__CURSOR", "_COMM",
         "__REALTIME_TIMESTAMP", "OBJECT_SYSTEMD_UNIT")  # fmt: skip


@given(data=st.binary(max_size=300))
def test_any_bytes_from_journalctl_are_an_entry_or_nothing(data: bytes) -> None:
    found = journal_entry.parse_entry(data)
    assert found is None or isinstance(found, dict)
    journal_line(data, UNIT, False)


@given(raw=st.dictionaries(st.sampled_from(NAMES), json_values))
def test_any_fields_of_an_entry_are_taken_without_a_crash(raw: dict[str, Any]) -> None:
    params = {"unit": UNIT, "user": False, "match": [MARK], "invocation": NEW, "limit": 10, "tail": 3}
    sorter = journal.Sorter(params)
    sorter.take(raw)
    json.dumps(journal_entry.as_line(raw))
    journal_entry.sequence_gaps([journal_entry.field(raw, "__CURSOR")])
    assert sorter.dropped >= 0


@given(data=st.binary(min_size=1, max_size=400).filter(lambda b: b"\n" not in b))
def test_any_message_bytes_survive_journalctls_two_forms(data: bytes) -> None:
    as_text: Any = None
    with contextlib.suppress(UnicodeDecodeError):
        as_text = data.decode("utf-8")
    for form in [list(data)] + ([as_text] if as_text is not None else []):
        line = journal_entry.as_line({"MESSAGE": form})
        assert line["text"] == data.decode("utf-8", "replace")
        assert line["utf8"] == (as_text is not None)


@given(raw=json_values)
def test_any_answer_of_a_reader_becomes_a_slice_or_says_it_is_incomplete(raw: Any) -> None:
    if not isinstance(raw, dict):
        assert not as_log_slice(raw, "x").complete


def test_following_turns_one_journal_line_into_one_log_line() -> None:
    line = journal_line(json.dumps(entry("hello", 1)).encode(), UNIT, False)
    assert line is not None
    assert (line.text, line.invocation, line.at) == ("hello", NEW, 1.7e9)
    assert journal_line(json.dumps(entry("hello", 1, unit="other.service")).encode(), UNIT, False) is None
    cut = journal_line(b'{"MESSAGE": "' + b"x" * 65536, UNIT, False)
    assert cut is not None
    assert cut.cut
