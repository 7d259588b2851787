"""Runs on the host: read one unit's lines from the journal after a cursor, in bounded memory.

`journalctl` filters by plain field matches only; what belongs to the unit, to the invocation and to the
searched texts is decided here. Its `--after-cursor` is not used: together with matches it drops the first
entry whenever the cursor's own entry does not match (seen with systemd 252). Prints one JSON document, see
`read`.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from specctl.service.onhost.journal_entry import (
    DROPPED_ID,
    as_line,
    belongs,
    cursor_sequence,
    dropped_lines,
    field,
    parse_entry,
    sequence_gaps,
)
from specctl.service.onhost.journal_limits import Crowd, rate_limit

ANSWER_LIMIT = 2 << 20  # bytes of each list of lines in the answer
JSON_LIMIT = 8 << 20  # bytes of one journal entry that are read
GAP_ENTRIES = 500000  # entries looked at for gaps


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


class Sorter:
    """Sorts entries into lines, earlier and tail; keeps the newest `limit` of each."""

    def __init__(self, params: dict[str, Any]) -> None:
        run, etc = params.get("run", "/run/systemd/units"), params.get("etc", "/etc/systemd")
        self.crowd = Crowd(*rate_limit(params["unit"], bool(params["user"]), run, etc))
        self.unit, self.user = params["unit"], bool(params["user"])
        self.match, self.invocation = list(params["match"]), params["invocation"]
        self.lines: deque[dict[str, Any]] = deque(maxlen=int(params["limit"]))
        self.earlier: deque[dict[str, Any]] = deque(maxlen=int(params["limit"]))
        self.tail: deque[dict[str, Any]] = deque(maxlen=int(params["tail"]))
        self.seen = self.not_utf8 = self.dropped = self.overflow = 0
        self.own = 0  # lines of the asked invocation, matching or not

    def take(self, entry: dict[str, Any]) -> None:
        self.dropped += dropped_lines(entry, self.unit, self.user)
        if not belongs(entry, self.unit, self.user):
            return
        line = as_line(entry)
        self.seen += 1
        self.crowd.take(line["at"])
        self.not_utf8 += not line["utf8"]
        self.tail.append(line)
        mine = self.invocation is None or line["invocation"] == self.invocation
        self.own += mine
        if not self.wanted(line):
            return
        kept = self.lines if mine else self.earlier
        self.overflow += kept is self.lines and len(kept) == kept.maxlen
        kept.append(line)

    def wanted(self, line: dict[str, Any]) -> bool:
        return not self.match or any(m in line["text"] for m in self.match)


class Reader:
    """One run of journalctl, line by line, with a deadline."""

    def __init__(self, argv: list[str], timeout_s: float) -> None:
        self.argv, self.timeout_s = argv, timeout_s
        self.errors: list[str] = []
        self.code = 0
        self.late = False

    def __iter__(self) -> Iterator[bytes]:
        process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        errors = process.stderr
        notes = threading.Thread(
            target=lambda: self.errors.append(errors.read(8192).decode("utf-8", "replace"))
        )
        notes.start()
        timer = threading.Timer(self.timeout_s, self._stop, (process,))
        timer.start()
        try:
            while True:
                line = process.stdout.readline(JSON_LIMIT)
                if not line:
                    break
                yield line
        finally:
            timer.cancel()
            process.kill()
            process.stdout.close()
            self.code = process.wait()
            notes.join(5)

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        self.late = True
        process.kill()


def read(params: dict[str, Any]) -> dict[str, Any]:
    """Read the journal.

    params: unit, user (a unit of a user manager), uid, cursor ("" is the beginning), invocation or None,
    match, limit, tail, timeout_s, full (this user can read the whole journal), journalctl (the command).
    """
    base = [*params["journalctl"], "--no-pager", "-a", "-o", "json"]
    cursor = params["cursor"]
    after = ["--cursor", cursor] if cursor else []
    if not cursor and not params["match"]:
        after = ["-n", str(params["limit"])]  # every line counts: the newest are enough
    matches = unit_matches(params["unit"], bool(params["user"]), params["uid"])
    sorter = Sorter(params)
    reader = Reader([*base, *after, *matches], float(params["timeout_s"]))
    for line in reader:
        entry = parse_entry(line)
        if entry is not None and field(entry, "__CURSOR") != cursor:
            sorter.take(entry)
    reasons = []
    notes = " ".join(reader.errors).strip()[:500]
    if reader.late:
        reasons.append(f"reading the journal took longer than {reader.timeout_s:g} s")
    elif reader.code not in (0, -9) and not sorter.seen:
        reasons.append(f"journalctl ended with {reader.code}: {notes}")
    elif not sorter.seen and notes:
        reasons.append(notes)
    if cursor and not holds(base, cursor):
        reasons.append("the journal no longer holds the entry of the cursor (rotated away)")
    lines = newest(sorter.lines)
    left_out = sorter.overflow + len(sorter.lines) - len(lines)
    if left_out:
        reasons.append(f"{left_out} older matching lines were left out")
    if sorter.match and not sorter.lines:
        before(sorter, base, params)
        if params["full"] and not sorter.dropped:
            sorter.dropped += gaps([*base, *after])
    if sorter.crowd.seen and not sorter.dropped:
        reasons.append(
            f"{sorter.crowd.lines} lines within {sorter.crowd.seconds:g} s: journald may drop some"
        )
    return {
        "lines": lines,
        "earlier": newest(sorter.earlier),
        "tail": newest(sorter.tail),
        "dropped": None if sorter.crowd.seen and not sorter.dropped else sorter.dropped,
        "complete": not reasons,
        "reason": "; ".join(reasons),
        "not_utf8": sorter.not_utf8,
        "seen": sorter.seen,
        "own": sorter.own,
    }


def unit_matches(unit: str, user: bool, uid: int) -> list[str]:
    """Field matches: the unit's own lines, or journald's word about lines it threw away."""
    own = ["_SYSTEMD_USER_UNIT=" + unit, f"_UID={uid}"] if user else ["_SYSTEMD_UNIT=" + unit]
    return [*own, "+", "MESSAGE_ID=" + DROPPED_ID]


def holds(base: list[str], cursor: str) -> bool:
    """Whether the entry that the cursor names is still there."""
    for line in Reader([*base, "-n", "1", "--cursor", cursor], 20.0):
        entry = parse_entry(line)
        if entry is not None:
            return cursor_sequence(field(entry, "__CURSOR")) == cursor_sequence(cursor)
    return False


def before(sorter: Sorter, base: list[str], params: dict[str, Any]) -> None:
    """Nothing matched after the cursor: look for matching lines before it, newest first, bounded."""
    own = unit_matches(params["unit"], sorter.user, params["uid"])[:-2]
    for line in Reader([*base, "-r", "-n", "100000", *own], float(params["timeout_s"])):
        entry = parse_entry(line)
        if entry is None or not belongs(entry, sorter.unit, sorter.user):
            continue
        found = as_line(entry)
        if sorter.wanted(found) and found not in sorter.earlier:
            sorter.earlier.append(found)
            if len(sorter.earlier) >= 50:
                return


def gaps(command: list[str]) -> int:
    """Entries that the whole journal misses from the cursor on; asked only when all of it can be read."""

    def cursors() -> Iterator[str]:
        for count, line in enumerate(Reader([*command, "--output-fields=_PID"], 60.0)):
            entry = parse_entry(line)
            if entry is not None:
                yield field(entry, "__CURSOR")
            if count > GAP_ENTRIES:
                return

    return sequence_gaps(cursors())


if __name__ == "__main__":
    print(json.dumps(read(globals()["params"])))
