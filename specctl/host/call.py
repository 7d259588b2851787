"""One command on its way to a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from specctl.host.capture import KEPT, Lines


@dataclass(frozen=True)
class Call:
    """One command as the transport has to carry it out."""

    argv: tuple[str, ...]
    stdin: Iterable[bytes] | None = None
    timeout_s: float | None = None
    stall: bool = False  # the deadline counts from the last byte that was sent or came back
    sudo: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    keep: int = KEPT  # bytes
    lines: Lines | None = None  # where stdout goes instead of being kept
    repeatable: bool = False  # may open a new connection when the old one was found dead
    title: tuple[str, ...] = ()  # what errors call it, where argv is only the machinery

    @property
    def shown(self) -> tuple[str, ...]:
        return self.title or self.argv
