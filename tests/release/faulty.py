"""A host whose link is lost when a test says so, before or after the call has had its effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specctl.host.errors import HostTimeout, Unreachable
from specctl.host.protocol import Host

VERBS = ("run", "stream", "put", "write", "read", "script")


class FaultyHost:
    """Wraps a host; counts calls over all its copies.

    Args:
        lose: number of a call (from 1) -> whether its answer is lost. The call still has its effect.
        dead: number of a call -> whether the host cannot be reached at all.
        hang: whether calls meet their deadline now.
    """

    def __init__(
        self,
        host: Host,
        counter: list[int],
        *,
        lose: Callable[[int], bool] = lambda n: False,
        dead: Callable[[int], bool] = lambda n: False,
        hang: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = host.name
        self._host, self._counter, self._lose, self._dead, self._hang = host, counter, lose, dead, hang

    def __getattr__(self, verb: str) -> Any:
        inner = getattr(self._host, verb)
        if verb not in VERBS:
            return inner

        def call(*args: Any, **kwargs: Any) -> Any:
            self._counter[0] += 1
            number = self._counter[0]
            if self._dead(number):
                raise Unreachable(f"{self.name} cannot be reached", context={"host": self.name})
            if self._hang():
                raise HostTimeout(f"{self.name} did not answer", context={"host": self.name})
            answer = inner(*args, **kwargs)
            if self._lose(number):
                raise Unreachable(f"the link to {self.name} was lost", context={"host": self.name})
            return answer

        return call
