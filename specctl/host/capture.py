"""Output of commands, kept within bounds: the beginning and the end of a flood, and lines as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

KEPT = 8 << 20  # bytes of each of stdout and stderr
LONGEST_LINE = 64 << 10  # bytes


class Capture:
    """Keeps at most `limit` bytes: the first half from the start, the rest from the end."""

    def __init__(self, limit: int = KEPT) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0  # bytes

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._forget(len(self._tail[0]))
        if self._tail_size > self._tail_limit:
            self._forget(self._tail_size - self._tail_limit)

    def _forget(self, size: int) -> None:
        first = self._tail.popleft()
        if size < len(first):
            self._tail.appendleft(first[size:])
        self._tail_size -= size
        self.dropped += size

    def value(self) -> bytes:
        """What was kept; a line in the middle says how much was left out."""
        gap = f"\n[... {self.dropped} bytes left out ...]\n".encode() if self.dropped else b""
        return bytes(self._head) + gap + b"".join(self._tail)


class Lines:
    """Cuts a stream of bytes into lines and hands each over; a line is cut at `LONGEST_LINE`."""

    def __init__(self, on_line: Callable[[bytes], bool | None]) -> None:
        self._on_line = on_line
        self._rest = bytearray()
        self._skipping = False  # inside the cut-off part of a long line
        self.stopped = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes; after `on_line` said False nothing more is handed over."""
        start = 0
        while not self.stopped:
            end = data.find(b"\n", start)
            self._take(data[start : end if end >= 0 else len(data)])
            if end < 0:
                return
            self._end_line()
            start = end + 1

    def close(self) -> None:
        """The stream is over: a last line without a line feed counts."""
        if self._rest and not self.stopped:
            self._end_line()

    def _take(self, part: bytes) -> None:
        if self._skipping:
            return
        self._rest += part
        if len(self._rest) > LONGEST_LINE:
            del self._rest[LONGEST_LINE:]
            self._skipping = True

    def _end_line(self) -> None:
        line, self._rest, self._skipping = bytes(self._rest), bytearray(), False
        if self._on_line(line) is False:
            self.stopped = True
