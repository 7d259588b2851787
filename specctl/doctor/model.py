"""What doctor says: checks as data, each with what was seen and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from specctl.config.model import EnvironmentKind
from specctl.errors import SpecctlError


class Verdict(str, Enum):
    """OK: as it should be. WARN: may work, look at it. FAIL: a deploy or the server would fail."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One finding. `name` is stable, for programs; `server` is None for what concerns the whole host."""

    name: str
    verdict: Verdict
    seen: str
    hint: str | None = None
    server: str | None = None


@dataclass(frozen=True)
class Advice:
    """Which kind of environment fits a host, and why."""

    kind: EnvironmentKind
    configured: EnvironmentKind
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class HostReport:
    """All checks of one host. Where it could not be reached, that is the only one."""

    host: str
    reachable: bool
    checks: tuple[Check, ...]
    advice: Advice | None = None
    error: SpecctlError | None = None  # what kept specctl away

    @property
    def ok(self) -> bool:
        return not any(check.verdict is Verdict.FAIL for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        document = asdict(replace(self, error=None))
        del document["error"]
        return {**document, "ok": self.ok}


def ok(name: str, seen: str, *, server: str | None = None) -> Check:
    return Check(name, Verdict.OK, seen, server=server)


def warn(name: str, seen: str, hint: str, *, server: str | None = None) -> Check:
    return Check(name, Verdict.WARN, seen, hint, server)


def fail(name: str, seen: str, hint: str, *, server: str | None = None) -> Check:
    return Check(name, Verdict.FAIL, seen, hint, server)


def present(checks: Iterable[Check | None]) -> list[Check]:
    """The checks of rules that had something to say."""
    return [check for check in checks if check is not None]


def size(count: float) -> str:
    """Bytes for people: 3.2 GiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
