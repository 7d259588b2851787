"""Runs on the host: read a log file after a byte offset, over its rotated predecessors, in bounded memory.

Each start of the service writes `specctl: invocation ID` into the log, so that lines can be told apart.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

LINE_LIMIT = 1 << 16  # bytes of one line; the rest of it is skipped
TEXT_LIMIT = 8192  # bytes of one line's text that are kept
ANSWER_LIMIT = 2 << 20  # bytes of each list of lines in the answer
READ_LIMIT = 1 << 28  # bytes that are read in all, the newest
HEADER = re.compile(rb"^specctl: invocation ([0-9A-Za-z._-]{1,64})\r?$")


def log_files(path: str) -> list[str]:
    """The log and its rotated predecessors (`path.1` is newer than `path.2`), oldest first."""
    found = []
    index = 1
    while os.path.exists(f"{path}.{index}") and index < 100:
        found.append(f"{path}.{index}")
        index += 1
    found.reverse()
    return found + ([path] if os.path.exists(path) else [])


def position(path: str) -> str:
    """`device:inode:offset` of the log's end; "" when there is no log yet."""
    try:
        st = os.stat(path)
    except OSError:
        return ""
    return f"{st.st_dev}:{st.st_ino}:{st.st_size}"


def split_lines(stream: BinaryIO, start: int) -> Iterator[tuple[int, bytes, bool]]:
    """(offset, line without its newline, whether it was cut) of each line from `start` on."""
    stream.seek(start)
    offset = start
    while True:
        line = stream.readline(LINE_LIMIT)
        if not line:
            return
        at, cut = offset, False
        offset += len(line)
        while not line.endswith(b"\n"):
            more = stream.readline(LINE_LIMIT)
            if not more:
                break
            offset += len(more)
            cut = True
            if more.endswith(b"\n"):
                break
        yield at, line.rstrip(b"\n"), cut


def read(params: dict[str, Any]) -> dict[str, Any]:
    """Read the log. params: path, cursor ("" is the beginning), invocation or None, match, limit, tail."""
    match = [m.encode() for m in params["match"]]
    lines: deque[dict[str, Any]] = deque(maxlen=int(params["limit"]))
    earlier: deque[dict[str, Any]] = deque(maxlen=int(params["limit"]))
    tail: deque[dict[str, Any]] = deque(maxlen=int(params["tail"]))
    counts = {"seen": 0, "not_utf8": 0, "own": 0}
    reasons: list[str] = []
    files = [(p, os.stat(p)) for p in log_files(params["path"])]
    start = where(params["cursor"], files, reasons)
    skip = max(0, sum(st.st_size for _, st in files) - READ_LIMIT)
    if skip:
        reasons.append(f"only the newest {READ_LIMIT} bytes of the log were read")
    invocation, overflow = "", 0
    for index, (path, st) in enumerate(files):
        begin = min(skip, st.st_size)
        skip -= begin
        with open(path, "rb") as stream:
            for offset, data, cut in split_lines(stream, begin):
                header = HEADER.match(data)
                if header:
                    invocation = header.group(1).decode()
                    continue
                line = as_line(data, cut, invocation)
                after = (index, offset) >= start
                mine = after and params["invocation"] in (None, invocation)
                if after:
                    counts["seen"] += 1
                    counts["not_utf8"] += not line["utf8"]
                    counts["own"] += mine
                    tail.append(line)
                if not match or any(m in data for m in match):
                    overflow += mine and len(lines) == lines.maxlen
                    (lines if mine else earlier).append(line)
    overflow += len(lines) - len(newest(lines))
    if overflow:
        reasons.append(f"{overflow} older matching lines were left out")
    if not files:
        reasons.append("there is no log at " + params["path"])
    return {
        "lines": newest(lines),
        "earlier": newest(earlier) if match else [],
        "tail": newest(tail),
        "dropped": 0,
        "complete": not reasons,
        "reason": "; ".join(reasons),
        **counts,
    }


def newest(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest of these lines that fit into the answer."""
    kept: list[dict[str, Any]] = []
    room = ANSWER_LIMIT
    for line in reversed(list(lines)):
        room -= len(json.dumps(line))
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]


def where(cursor: str, files: list[tuple[str, os.stat_result]], reasons: list[str]) -> tuple[int, int]:
    """The cursor as (index of the file, offset in it)."""
    if not cursor:
        return (0, 0)
    device, inode, offset = (int(part) for part in cursor.split(":"))
    for index, (_, st) in enumerate(files):
        if (st.st_dev, st.st_ino) == (device, inode):
            if offset > st.st_size:
                reasons.append("the log was cut shorter after the cursor was taken")
                return (index, 0)
            return (index, offset)
    reasons.append("the log was rotated away since the cursor was taken")
    return (0, 0)


def as_line(data: bytes, cut: bool, invocation: str) -> dict[str, Any]:
    try:
        data.decode("utf-8")
        utf8 = True
    except UnicodeDecodeError:
        utf8 = False
    return {
        "text": data[:TEXT_LIMIT].decode("utf-8", "replace"),
        "at": None,
        "invocation": invocation,
        "utf8": utf8,
        "cut": cut or len(data) > TEXT_LIMIT,
    }


if __name__ == "__main__":
    _params = globals()["params"]
    print(json.dumps(position(_params["path"]) if _params.get("op") == "position" else read(_params)))
