"""Writing a command's stdin from a thread of its own: a command that answers early never blocks us."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

_PIECE = 64 << 10  # bytes


class Feeder:
    """Feeds blocks to `send` and calls `end` after the last.

    Whatever `send` raises ends the feeding quietly: the command may end, or the link be lost, before
    everything was sent, and who reads the command's output finds out which.
    """

    def __init__(
        self, blocks: Iterable[bytes], send: Callable[[bytes], object], end: Callable[[], object]
    ) -> None:
        self._blocks = blocks
        self._send = send
        self._end = end
        self._moved = False
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        try:
            for block in self._blocks:
                for start in range(0, len(block), _PIECE):
                    self._send(block[start : start + _PIECE])
                    self._moved = True
            self._end()
        except Exception:
            return

    @property
    def busy(self) -> bool:
        """True while there is something left to send."""
        return self._thread.is_alive()

    def moved(self) -> bool:
        """True when something was sent since the last question."""
        moved, self._moved = self._moved, False
        return moved
