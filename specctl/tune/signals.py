"""Signals that end a program, while something must be put back, and while it may be interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not stop what puts things back. Only the main thread can say so.

    A handler that does nothing, because ignoring a signal would be inherited by programs started meanwhile.
    """
    with _handled(lambda _signal, _frame: None):
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """A terminal that is closed, or a request to end, puts things back as Ctrl-C does."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt):
        yield


@contextmanager
def _handled(handler: object) -> Iterator[None]:
    previous = {}
    try:
        for name in ENDING:
            if signal.getsignal(name) is not signal.SIG_IGN:  # nohup, and jobs in the background
                previous[name] = signal.signal(name, handler)  # type: ignore[arg-type]
    except ValueError:
        pass
    try:
        yield
    finally:
        for name, old in previous.items():
            signal.signal(name, old)
