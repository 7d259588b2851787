"""The same question to many hosts at once: one outcome for each, whatever happens to the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Generic, TypeVar

from specctl.errors import SpecctlError, internal_error, let_go

K = TypeVar("K")
T = TypeVar("T")
WIDTH = 32  # hosts asked at once


@dataclass(frozen=True)
class Outcome(Generic[K, T]):
    """What came of one host: a value, or the error that kept it away."""

    key: K
    value: T | None
    error: SpecctlError | None


def each(
    keys: Sequence[K],
    ask: Callable[[K], T],
    *,
    width: int = WIDTH,
    on_done: Callable[[Outcome[K, T]], None] | None = None,
) -> list[Outcome[K, T]]:
    """Ask all, at most `width` at once; outcomes in the order of `keys`, `on_done` as they come.

    Whatever is raised for one host is its outcome alone: what one host answers must not hide what became of
    the others. Anything but a `SpecctlError` becomes one with the code "internal".
    """

    def one(key: K) -> Outcome[K, T]:
        try:
            return Outcome(key, ask(key), None)
        except SpecctlError as exc:
            return Outcome(key, None, let_go(exc))
        except Exception as exc:
            return Outcome(key, None, internal_error(exc, host=str(getattr(key, "name", key))))

    if not keys:
        return []
    pool = ThreadPoolExecutor(max_workers=min(width, len(keys)))
    try:
        futures = [pool.submit(one, key) for key in keys]
        for future in as_completed(futures):
            if on_done:
                on_done(future.result())
    except BaseException:
        # an interrupt: do not wait for hosts that hang; the caller closes their connections
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [future.result() for future in futures]
