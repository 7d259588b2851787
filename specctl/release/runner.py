"""Carry a plan out on one host: journal before each step, and the whole way back when one fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from specctl.errors import SpecctlError
from specctl.release.actions.base import Action
from specctl.release.actions.record import MarkGood
from specctl.release.clock import stamp
from specctl.release.context import Context
from specctl.release.errors import Interrupted, LockLost, UndoneByHost
from specctl.release.journal import Journal
from specctl.release.plan import Plan
from specctl.release.result import HostResult, Outcome, ServerResult
from specctl.release.stepping import as_specctl_error, enter, label, persist
from specctl.release.wayback import WayBack, befores
from specctl.release.words import silent

OnStep = Callable[[Action, str], None]  # the step, and "start", "ok" or "failed"


@dataclass
class Runner:
    """One plan on one host. The lock is held by the caller."""

    plan: Plan
    ctx: Context
    on_step: OnStep = silent
    notes: list[str] = field(default_factory=list)

    def run(self) -> HostResult:
        """Every action in order; after a failure the undo of every action that began, in reverse."""
        begin = self.ctx.clock.monotonic()
        self.journal = Journal(self.ctx.remote, self.ctx.layout.journal(self.plan.release), self.ctx.clock)
        begun: list[Action] = []
        error: SpecctlError | None = None
        outcome, state = Outcome.DONE, ""
        try:
            self.journal.begin(self.plan.command, self.plan.release, self.ctx.operator, self.plan.as_dict())
            for action in self.plan.actions:
                self.ctx.check()
                self._step(action, begun)
        except Exception as exc:
            error = as_specctl_error(exc, self.ctx.host.name, begun[-1] if begun else None)
            way = WayBack(self.plan, self.ctx, self.journal, self.notes)
            outcome, state = way.walk(begun, error)
        seconds = self.ctx.clock.monotonic() - begin
        result = HostResult(
            self.plan.host, outcome, seconds, self._servers(outcome), error, state, tuple(self.notes)
        )
        self._finish(result)
        return result

    def _step(self, action: Action, begun: list[Action]) -> None:
        self.on_step(action, "start")
        persist(self.ctx, lambda: enter(self.ctx, self.journal, action))
        begun.append(action)
        try:
            persist(self.ctx, lambda: self._perform(action))
        except Exception as exc:
            self.on_step(action, "failed")
            self.journal.end(action.kind, action.about, "failed", str(exc)[:500])
            if not action.cleanup or isinstance(exc, (Interrupted, LockLost, UndoneByHost)):
                raise
            begun.pop()
            self.notes.append(f"{label(action)} failed: {exc}")
        else:
            self.on_step(action, "ok")
            self.journal.end(action.kind, action.about, "ok")
            if isinstance(action, MarkGood):
                self.ctx.unstoppable = True  # it is written down: what is left only tidies up

    def _perform(self, action: Action) -> None:
        action.apply(self.ctx)
        action.verify(self.ctx)

    def _servers(self, outcome: Outcome) -> tuple[ServerResult, ...]:
        before = {b.server: b.release for b in befores(self.plan)}
        return tuple(
            ServerResult(
                s.server,
                s.after if outcome is Outcome.DONE else before.get(s.server, s.before),
                s.changed and outcome is Outcome.DONE,
                self.ctx.reports.get(s.server),
            )
            for s in self.plan.servers
        )

    def _finish(self, result: HostResult) -> None:
        entry = {
            "at": stamp(self.ctx.clock),
            "run": self.ctx.remote.run,
            "command": self.plan.command,
            "release": self.plan.release,
            "by": self.ctx.operator.name,
            "result": result.outcome.value,
            "detail": result.error.message if result.error else "",
            "servers": [s.server for s in self.plan.servers if s.changed],
            "seconds": round(result.seconds, 1),
        }
        if result.outcome is Outcome.UNREACHABLE:
            return
        try:
            self.journal.finish(result.outcome.value, entry)
        except SpecctlError as exc:
            self.notes.append(f"the end of this run could not be written down: {exc}")
