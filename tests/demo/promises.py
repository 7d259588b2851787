"""What was promised, what was seen, and where; the first thing that is not as promised ends the demo."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Promise:
    """One line of the closing table."""

    promised: str
    kept: bool
    seen: str
    where: str


class Broken(Exception):
    """Something is not as promised; the text says what was expected and what was seen."""


@dataclass
class Promises:
    """All that was checked so far, in order."""

    kept: list[Promise] = field(default_factory=list)

    def check(self, promised: str, kept: bool, seen: str, where: str) -> None:
        """Note it.

        Raises:
            Broken: it is not as promised.
        """
        self.kept.append(Promise(promised, kept, seen, where))
        if not kept:
            raise Broken(f"promised: {promised}\nseen: {seen}\nwhere: {where}")
