"""Many hosts: in batches, in parallel within one, stopping when too many have failed."""

from __future__ import annotations

import math
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from specctl.errors import SpecctlError, UsageError, internal_error, let_go
from specctl.release.result import HostResult, Outcome
from specctl.release.words import silent

T = TypeVar("T")
WIDEST = 64  # hosts worked on at once; more threads than that only wait for each other
TICK_S = 0.2  # how soon a Ctrl-C is seen

_SIZE = re.compile(r"([0-9]+)(%?)\Z")


def parse_serial(text: str) -> tuple[str, ...]:
    """`1`, `25%` or a series like `1,5,25%` of batch sizes; the last one repeats.

    Raises:
        UsageError: something else, or a batch of nothing.
    """
    sizes = tuple(part.strip() for part in text.split(","))
    for size in sizes:
        found = _SIZE.match(size)
        if not found or int(found.group(1)) == 0 or (found.group(2) and int(found.group(1)) > 100):
            raise UsageError(f"--serial {text!r}: {size!r} is no batch size", hint="give 2, 25% or 1,5,25%")
    return sizes


def batches(count: int, serial: Sequence[str] = (), canary: int = 0) -> list[int]:
    """Batch sizes that add up to `count`: the canary first, then `serial`, of which the last repeats.

    A percentage is of all hosts, rounded up, and at least one host.
    """
    sizes: list[int] = []
    left = count
    if canary > 0 and left > 0:
        sizes.append(min(canary, left))
        left -= sizes[-1]
    position = 0
    while left > 0:
        if serial:
            text = serial[min(position, len(serial) - 1)]
            size = math.ceil(count * int(text[:-1]) / 100) if text.endswith("%") else int(text)
        else:
            size = left
        sizes.append(max(1, min(size, left)))
        left -= sizes[-1]
        position += 1
    return sizes


def parse_max_fail(text: str, count: int) -> int:
    """How many hosts may fail before no new batch begins: `0`, `2` or `10%` of all (rounded down).

    Raises:
        UsageError: something else.
    """
    found = _SIZE.match(text.strip())
    if not found or (found.group(2) and int(found.group(1)) > 100):
        raise UsageError(f"--max-fail {text!r} is no number of hosts", hint="give 0, 2 or 10%")
    number = int(found.group(1))
    return count * number // 100 if found.group(2) else number


@dataclass
class Fleet:
    """Runs one function on many hosts.

    `stop` is set by Ctrl-C or SIGTERM: work that has begun ends cleanly (the function looks at it), nothing
    new begins.
    """

    serial: tuple[str, ...] = ()
    canary: int = 0
    max_fail: int = 0  # hosts
    widest: int = WIDEST
    stop: threading.Event = field(default_factory=threading.Event)
    on_interrupt: Callable[[int], None] = silent  # called in the main thread: 1, 2, ...

    def run(
        self, items: Sequence[T], name: Callable[[T], str], work: Callable[[T], HostResult]
    ) -> list[HostResult]:
        """One result for each item, in the items' order, whatever happened to the others.

        After a batch with more than `max_fail` failures in all (a canary batch: with any), the rest is
        skipped. `work` should not raise; if it does, that host counts as failed.
        """
        results: dict[int, HostResult] = {}
        sizes = batches(len(items), self.serial, self.canary)
        start = 0
        with self._signals():
            for number, size in enumerate(sizes):
                indexes = range(start, start + size)
                start += size
                self._batch([(i, items[i]) for i in indexes], name, work, results)
                failed = sum(r.outcome.failed for r in results.values())
                canary_failed = number == 0 and self.canary > 0 and failed > 0
                if self.stop.is_set() or canary_failed or failed > self.max_fail:
                    break
        reason = Outcome.INTERRUPTED if self.stop.is_set() else Outcome.SKIPPED
        return [
            results.get(i) or HostResult(name(item), reason, state="not begun; the host was not touched")
            for i, item in enumerate(items)
        ]

    def _batch(
        self,
        batch: list[tuple[int, T]],
        name: Callable[[T], str],
        work: Callable[[T], HostResult],
        results: dict[int, HostResult],
    ) -> None:
        with ThreadPoolExecutor(max_workers=max(1, min(self.widest, len(batch)))) as pool:
            running = {pool.submit(self._guarded, item, name, work): i for i, item in batch}
            left: set[Future[HostResult]] = set(running)
            while left:  # not one long wait: signals are looked at in between
                _, left = wait(left, timeout=TICK_S, return_when=FIRST_COMPLETED)
            results.update({index: future.result() for future, index in running.items()})

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """While hosts are worked on, Ctrl-C and SIGTERM set `stop` and interrupt nothing half way.

        Only the main thread gets signals; elsewhere this does nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        times = 0

        def asked(_number: int, _frame: object) -> None:
            nonlocal times
            times += 1
            self.stop.set()
            self.on_interrupt(times)

        before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _guarded(self, item: T, name: Callable[[T], str], work: Callable[[T], HostResult]) -> HostResult:
        if self.stop.is_set():
            return HostResult(name(item), Outcome.INTERRUPTED, state="not begun; the host was not touched")
        try:
            result = work(item)
        except SpecctlError as exc:
            result = HostResult(name(item), Outcome.FAILED, error=exc)
        except Exception as exc:  # a defect on one host must not hide what became of the others
            result = HostResult(name(item), Outcome.FAILED, error=internal_error(exc, host=name(item)))
        if result.error is not None:
            let_go(result.error)
        return result
