"""Reading a log file: over rotations, cuts and restarts, without taking an old line for a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from specctl.service.onhost import textlog

MARK = "Dynamic speculation disable enabled"


def read(path: Path, cursor: str = "", invocation: str | None = None, **more: Any) -> dict[str, Any]:
    params = {
        "path": str(path),
        "cursor": cursor,
        "invocation": invocation,
        "match": [MARK],
        "limit": 50,
        "tail": 5,
    }
    return textlog.read({**params, **more})


def texts(lines: list[dict[str, Any]]) -> list[str]:
    return [line["text"] for line in lines]


def append(path: Path, text: str) -> None:
    with path.open("a") as log:
        log.write(text)


def test_a_marker_before_the_cursor_is_earlier(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"specctl: invocation 1.1\n{MARK} old\n")
    cursor = textlog.position(str(log))
    append(log, "specctl: invocation 2.2\nhello\n")
    found = read(log, cursor, "2.2")
    assert (found["lines"], texts(found["earlier"]), found["own"]) == ([], [f"{MARK} old"], 1)
    append(log, f"{MARK} new\n")
    assert texts(read(log, cursor, "2.2")["lines"]) == [f"{MARK} new"]


def test_a_marker_of_a_crashed_start_after_the_cursor_is_not_this_invocations(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"specctl: invocation 1.1\n{MARK} crashed\nspecctl: invocation 2.2\nhello\n")
    found = read(log, "", "2.2")
    assert (found["lines"], len(found["earlier"])) == ([], 1)


def test_the_cursor_is_found_again_after_a_rotation(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{MARK} old\n")
    cursor = textlog.position(str(log))
    append(log, f"{MARK} one\n")
    log.rename(tmp_path / "log.1")
    log.write_text(f"{MARK} two\n")
    found = read(log, cursor)
    assert texts(found["lines"]) == [f"{MARK} one", f"{MARK} two"]
    assert found["complete"]


def test_a_log_rotated_away_or_cut_shorter_is_incomplete(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a long line of text\n")
    cursor = textlog.position(str(log))
    log.write_text("short\n")
    assert "cut shorter" in read(log, cursor)["reason"]
    other = tmp_path / "other"
    other.write_text("x\n")
    other.replace(log)
    found = read(log, cursor)
    assert "rotated away" in found["reason"]
    assert not found["complete"]


def test_a_log_that_is_not_there_is_incomplete_and_not_empty(tmp_path: Path) -> None:
    assert textlog.position(str(tmp_path / "log")) == ""
    assert not read(tmp_path / "log")["complete"]


def test_bytes_that_are_not_utf8_do_not_hide_the_marker(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"caf\xe9\r\n\x1b[31m" + MARK.encode() + b"\xe9\x1b[0m\n")
    found = read(log)
    assert found["not_utf8"] == 2
    assert len(found["lines"]) == 1


def test_a_line_without_end_is_cut_and_the_next_one_is_still_seen(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * (3 << 20) + b"\n" + MARK.encode() + b"\n")
    found = read(log)
    assert texts(found["lines"]) == [MARK]
    assert found["tail"][0]["cut"]


@given(chunks=st.lists(st.binary(max_size=60), max_size=12))
def test_any_bytes_in_a_log_are_read(chunks: list[bytes], tmp_path_factory: Any) -> None:
    log = tmp_path_factory.mktemp("log") / "log"
    log.write_bytes(b"\n".join(chunks))
    found = read(log, match=[])
    expected = [line for line in b"\n".join(chunks).split(b"\n") if not textlog.HEADER.match(line)]
    if expected and expected[-1] == b"":
        expected.pop()
    assert texts(found["lines"]) == [line.decode("utf-8", "replace") for line in expected]
