"""End a run whose operator was lost, so that the host's history tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specctl.release.actions.base import Action
from specctl.release.clock import stamp
from specctl.release.context import Context


@dataclass(frozen=True)
class CloseRun(Action):
    """What the lost run did stays: this plan was made from there. Its timer was claimed with the lock."""

    kind: ClassVar[str] = "close-run"

    run: str
    command: str
    release: str
    by: str
    journal: str

    def describe(self) -> str:
        return f"end the unfinished {self.command} of {self.release} by {self.by}"

    def apply(self, ctx: Context) -> None:
        entry = {
            "at": stamp(ctx.clock),
            "run": self.run,
            "command": self.command,
            "release": self.release,
            "by": self.by,
            "result": "unfinished",
            "detail": f"ended by {ctx.operator.name}",
        }
        record = {"event": "finish", "run": self.run, "at": stamp(ctx.clock), "result": "unfinished"}
        ctx.remote.program("journal", journal=self.journal, records=[record], entry=entry)
