"""End a run whose operator was lost, so that it is in the host's history and its timer acts no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specctl.release.actions.base import Action
from specctl.release.actions.deadman import settle_deadman
from specctl.release.clock import stamp
from specctl.release.context import Context
from specctl.release.errors import PlanChanged


@dataclass(frozen=True)
class CloseRun(Action):
    """What the lost run did stays; this plan was made from it."""

    kind: ClassVar[str] = "close-run"

    run: str
    command: str
    release: str
    by: str
    journal: str
    deadman: str | None  # how its timer stood when the plan was made

    def describe(self) -> str:
        return f"end the unfinished {self.command} of {self.release} by {self.by}"

    def lease_s(self) -> float:
        return 300.0

    def apply(self, ctx: Context) -> None:
        answer = settle_deadman(ctx.remote, self.run)
        if answer["fired"] and self.deadman in ("armed", "firing"):
            raise PlanChanged(
                f"{ctx.host.name} went back by itself after the plan was made",
                context={"host": ctx.host.name, "outcome": str(answer.get("outcome"))},
                hint="run the command again",
            )
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
