"""What is wrong with an inventory, collected so that all of it is said at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from specctl.errors import UsageError

_SHOWN = 50  # problems rendered in an error; the rest are counted
_MOST = 200  # problems after which the search ends
_CANDIDATES = 1000  # words among which the nearest is looked for


@dataclass(frozen=True, order=True)
class Where:
    """A place in a file. Lines and columns count from 1; `path` is e.g. hosts.gpu-[01:04].servers[0].port."""

    file: str
    line: int
    column: int
    path: str = ""

    def below(self, path: str) -> Where:
        return replace(self, path=path)

    @property
    def spot(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        return f"{self.spot} {self.path}".rstrip()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong (or, among warnings, doubtful), and what to write instead."""

    code: str
    where: Where
    message: str
    hint: str
    hosts: tuple[str, ...] = ()  # hosts of a range or group that share it

    @property
    def text(self) -> str:
        said = len(self.hosts) == 1 and f"{self.where.path}.".startswith(f"hosts.{self.hosts[0]}.")
        shared = f" (on {_few(self.hosts)})" if self.hosts and not said else ""
        return f"{self.message}{shared}"

    def as_dict(self) -> dict[str, object]:
        where = self.where
        return {
            "code": self.code,
            "file": where.file,
            "line": where.line,
            "column": where.column,
            "path": where.path,
            "message": self.message,
            "hint": self.hint,
            "hosts": list(self.hosts),
        }


class InventoryError(UsageError):
    """An inventory that cannot be used; `problems` lists every reason in the order of the file."""

    code = "inventory"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: p.where))
        files = sorted({p.where.file for p in self.problems})
        count = len(self.problems)
        context: dict[str, str] = {}
        for problem in self.problems[:_SHOWN]:
            path = f"{problem.where.path}: " if problem.where.path else ""
            entry = f"{path}{problem.text} [{problem.code}]\n-> {problem.hint}"
            spot = problem.where.spot
            context[spot] = f"{context[spot]}\n{entry}" if spot in context else entry
        if count > _SHOWN:
            context["more"] = f"{count - _SHOWN} further problems"
        noun = "problem" if count == 1 else "problems"
        super().__init__(
            f"{count} {noun} in {_few(files)}",
            context=context,
            hint="mend the lines above; `specctl hosts --example` explains every key",
        )

    def as_dict(self) -> dict[str, object]:
        return {**super().as_dict(), "problems": [p.as_dict() for p in self.problems]}


class Problems:
    """A collector. The same finding at the same place for several hosts is kept once, with their names.

    After 200 findings it raises `InventoryError` by itself: such a file is not an inventory.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, int, str, str], Problem] = {}

    def add(self, code: str, where: Where, message: str, hint: str, *, host: str | None = None) -> None:
        key = (where.file, where.line, where.column, code, message)
        seen = self._found.get(key)
        known = seen.hosts if seen else ()
        hosts = (*known, host) if host and known[-1:] != (host,) else known
        self._found[key] = replace(seen, hosts=hosts) if seen else Problem(code, where, message, hint, hosts)
        if len(self._found) >= _MOST:
            raise InventoryError(self._found.values())

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def all(self) -> tuple[Problem, ...]:
        return tuple(self._found.values())

    def raise_any(self) -> None:
        """Raise `InventoryError` when anything was added."""
        if self._found:
            raise InventoryError(self._found.values())


def shown(text: str) -> str:
    """A value as an error quotes it: short, and with nothing that could move the cursor."""
    cut = text if len(text) <= 60 else f"{text[:57]}..."
    return f"'{cut}'" if cut.isprintable() else ascii(cut)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant, if any is close."""
    candidates = sorted(known)[:_CANDIDATES]
    folded = {c.lower().replace("-", "_"): c for c in candidates}
    close = difflib.get_close_matches(word.lower().replace("-", "_")[:100], list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest word, or all of them when none is near."""
    words = sorted(known)
    near = nearest(word, words)
    if near is not None:
        return f"did you mean {near}?"
    listed = ", ".join(words[:20]) + (", ..." if len(words) > 20 else "")
    return f"known here: {listed}" if words else "there is none to choose from"


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed) if len(listed) <= 4 else f"{', '.join(listed[:3])} and {len(listed) - 3} more"
