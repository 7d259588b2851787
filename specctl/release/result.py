"""What became of one host, for the table, for `--json`, for `--resume`, and for the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from specctl.errors import SpecctlError
from specctl.evidence.model import Report
from specctl.exits import ExitCode
from specctl.release.gate import summary


class Outcome(str, Enum):
    """How a run ended on one host."""

    UNCHANGED = "unchanged"  # nothing to do, and nothing done
    PLANNED = "planned"  # a dry run
    DONE = "done"
    FAILED = "failed"  # what served before was not touched, or there was nothing
    ROLLED_BACK = "rolled back"  # failed, and the old release serves again
    DOWN = "down"  # failed, and so did the way back
    UNREACHABLE = "unreachable"
    LOCKED = "locked"
    REFUSED = "refused"  # nothing was done here: what was asked for cannot be, on this host
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"  # not begun: too many hosts had failed before

    @property
    def exit_code(self) -> ExitCode:
        return _CODES[self]

    @property
    def failed(self) -> bool:
        """Counts against --max-fail: everything that is not a success, an unreachable host too."""
        return self not in (Outcome.UNCHANGED, Outcome.PLANNED, Outcome.DONE)


_CODES = {
    Outcome.UNCHANGED: ExitCode.OK,
    Outcome.PLANNED: ExitCode.OK,
    Outcome.DONE: ExitCode.OK,
    Outcome.FAILED: ExitCode.FAILED,
    Outcome.ROLLED_BACK: ExitCode.ROLLED_BACK,
    Outcome.DOWN: ExitCode.DOWN,
    Outcome.UNREACHABLE: ExitCode.UNREACHABLE,
    Outcome.LOCKED: ExitCode.LOCKED,
    Outcome.REFUSED: ExitCode.USAGE,
    Outcome.INTERRUPTED: ExitCode.INTERRUPTED,
    Outcome.SKIPPED: ExitCode.FAILED,
}
# what the whole command reports when hosts differ: the worst first
_WORST = (
    Outcome.DOWN,
    Outcome.INTERRUPTED,
    Outcome.ROLLED_BACK,
    Outcome.FAILED,
    Outcome.LOCKED,
    Outcome.UNREACHABLE,
    Outcome.REFUSED,
    Outcome.SKIPPED,
)


@dataclass(frozen=True)
class ServerResult:
    """One server of a host after the run."""

    server: str
    release: str | None
    changed: bool
    report: Report | None = None

    def as_dict(self) -> dict[str, Any]:
        evidence = [] if self.report is None else [e.__dict__ for e in self.report.evidence]
        return {
            "server": self.server,
            "release": self.release,
            "changed": self.changed,
            "evidence": evidence,
            "summary": summary(self.report),
        }


@dataclass(frozen=True)
class HostResult:
    """One host after the run."""

    host: str
    outcome: Outcome
    seconds: float = 0.0
    servers: tuple[ServerResult, ...] = ()
    error: SpecctlError | None = None
    state: str = ""  # what is on the host now, in one plain sentence; set whenever something failed
    notes: tuple[str, ...] = field(default_factory=tuple)

    def as_dict(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "outcome": self.outcome.value,
            "exit_code": int(self.outcome.exit_code),
            "seconds": round(self.seconds, 3),
            "servers": [s.as_dict() for s in self.servers],
            "error": self.error.as_dict() if self.error else None,
            "state": self.state,
            "notes": list(self.notes),
        }


def overall(results: Iterable[HostResult]) -> ExitCode:
    """One exit code for many hosts: that of the worst outcome.

    A refusal's own code says that nothing was done anywhere, so it is only told when that is so.
    """
    seen = {r.outcome for r in results}
    worst = next((o for o in _WORST if o in seen), None)
    if worst is None:
        return ExitCode.OK
    return ExitCode.FAILED if worst is Outcome.REFUSED and Outcome.DONE in seen else worst.exit_code
