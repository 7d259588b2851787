"""Carry a plan out on one host: journal before each step, and the whole way back when one fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from specctl.errors import SpecctlError
from specctl.host.errors import HostTimeout, Unreachable
from specctl.release.actions.base import Action
from specctl.release.actions.deadman import ArmDeadman, Before, settle_deadman
from specctl.release.actions.folders import OpenRelease
from specctl.release.actions.prune import Prune
from specctl.release.clock import stamp
from specctl.release.context import PATIENCE_S, Context
from specctl.release.errors import Interrupted, LockLost, PlanRefused, UndoneByHost
from specctl.release.journal import Journal
from specctl.release.plan import Plan
from specctl.release.result import HostResult, Outcome, ServerResult
from specctl.release.words import silent

# pauses in seconds before a step is tried again after a lost link: steps can be repeated
RETRIES_S = (1.0, 3.0, 8.0)

LOST = (Unreachable, HostTimeout)  # the host may be gone, or may hang

OnStep = Callable[[Action, str], None]  # the step, and "start", "ok" or "failed"


class LinkLost(Exception):
    """The host was lost on the way back."""


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
            outcome, state = self._way_back(begun, error)
        seconds = self.ctx.clock.monotonic() - begin
        result = HostResult(
            self.plan.host, outcome, seconds, self._servers(outcome), error, state, tuple(self.notes)
        )
        self._finish(result)
        return result

    # -- forward

    def _step(self, action: Action, begun: list[Action]) -> None:
        self.on_step(action, "start")
        self._persist(lambda: self._enter(action))
        begun.append(action)
        try:
            self._persist(lambda: self._perform(action))
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

    def _enter(self, action: Action, verb: str = "") -> None:
        lease = max(action.lease_s(), PATIENCE_S)
        self.ctx.enter(f"{verb}{label(action)}", lease, self.journal, f"{verb}{action.kind}", action.about)

    def _perform(self, action: Action) -> None:
        action.apply(self.ctx)
        action.verify(self.ctx)

    def _persist(self, call: Callable[[], None]) -> None:
        """Again after a lost link: what was done is found there, whatever the link said."""
        for pause in RETRIES_S:
            try:
                return call()
            except Unreachable:
                self.ctx.check()
                self.ctx.clock.sleep(pause)
        return call()

    # -- back

    def _way_back(self, begun: list[Action], error: SpecctlError) -> tuple[Outcome, str]:
        """Undo what began; the outcome, and in one sentence what is on the host now."""
        if isinstance(error, UndoneByHost):
            return self._by_the_host()
        armed = any(isinstance(a, ArmDeadman) for a in begun)
        if isinstance(error, LOST) and not self._reachable():
            return self._lost(armed)
        if isinstance(error, LockLost):
            return self._lost_lock(armed)
        self.ctx.undoing = True
        try:
            problems = self._undo(begun)
        except LinkLost:
            return self._lost(armed)
        self._mark_failed(error)
        self._clear_useless(begun)
        if problems:
            return Outcome.DOWN, "the way back failed: " + "; ".join(problems)
        if not any(a.touches_service for a in begun):
            stopped = Outcome.INTERRUPTED if isinstance(error, Interrupted) else Outcome.FAILED
            return stopped, "nothing that serves was touched"
        state = "; ".join(_now(before) for before in self._before())
        if isinstance(error, Interrupted):
            return Outcome.INTERRUPTED, state
        serves = any(b.release and b.running for b in self._before())
        return (Outcome.ROLLED_BACK if serves else Outcome.FAILED), state

    def _undo(self, begun: list[Action]) -> list[str]:
        """Every undo in reverse, also after one has failed; what failed."""
        problems: list[str] = []
        for action in reversed(begun):
            try:
                self._persist(lambda action=action: self._enter(action, "undo "))  # type: ignore[misc]
                self._persist(lambda action=action: action.undo(self.ctx))  # type: ignore[misc]
                self.journal.end(f"undo {action.kind}", action.about, "ok")
            except UndoneByHost:
                outcome, state = self._by_the_host()
                return problems if outcome is Outcome.ROLLED_BACK else [*problems, state]
            except Exception as exc:
                if isinstance(exc, LOST) and not self._reachable():
                    raise LinkLost from exc  # the host's own undo is still armed: it does the rest
                problems.append(f"{label(action)}: {describe(exc)}")
                self.journal.end(f"undo {action.kind}", action.about, "failed", str(exc)[:500])
        return problems

    def _lost(self, armed: bool) -> tuple[Outcome, str]:
        if not armed:
            return Outcome.UNREACHABLE, "the link is lost; nothing that serves was touched"
        text = "the link is lost; the host goes back to the old release by itself within about a minute"
        return Outcome.UNREACHABLE, f"{text}: specctl status tells when it answers again"

    def _by_the_host(self) -> tuple[Outcome, str]:
        answer = settle_deadman(self.ctx.remote, self.ctx.remote.run)
        outcome = Outcome.ROLLED_BACK if answer.get("whole") else Outcome.DOWN
        return outcome, f"the host went back by itself: {answer.get('outcome')}"

    def _lost_lock(self, armed: bool) -> tuple[Outcome, str]:
        """Somebody else is at work: whatever we do now would be done beside them."""
        text = "another run took the lock; this one stopped where it was"
        return Outcome.FAILED, f"{text}, with servers in between" if armed else text

    def _reachable(self) -> bool:
        try:
            self._persist(lambda: self.ctx.enter("way back", PATIENCE_S))
        except LOST:
            return False
        except SpecctlError:
            return True
        return True

    def _mark_failed(self, error: SpecctlError) -> None:
        """A release that failed is never a target again; but one that serves elsewhere here is no failure."""
        blameless = isinstance(error, (Interrupted, *LOST, PlanRefused))
        if blameless or self.plan.release in [b.release for b in self._before()]:
            return
        try:
            step = str(error.context.get("step", "")) or error.code
            self.ctx.remote.program(
                "tree",
                op="fail",
                release=self.plan.release,
                run=self.ctx.remote.run,
                step=step,
                reason=error.message[:300],
            )
        except SpecctlError as exc:
            self.notes.append(f"{self.plan.release} could not be marked as failed: {exc}")

    def _clear_useless(self, begun: list[Action]) -> None:
        """Failed releases must not fill the disk, run after run, until one succeeds."""
        if not any(isinstance(a, OpenRelease) for a in begun):
            return
        for action in self.plan.actions:
            if isinstance(action, Prune) and action.useless:
                try:
                    Prune(action.useless).apply(self.ctx)
                except SpecctlError as exc:
                    self.notes.append(f"{label(action)} failed: {exc}")

    def _before(self) -> tuple[Before, ...]:
        """What a failure leads back to, of every server that this plan switches."""
        armed = (a for a in self.plan.actions if isinstance(a, ArmDeadman))
        return tuple(before for action in armed for before in action.servers)

    # -- the end

    def _servers(self, outcome: Outcome) -> tuple[ServerResult, ...]:
        before = {b.server: b.release for b in self._before()}
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


def _now(before: Before) -> str:
    """One server after the way back."""
    if before.release is None:
        return f"{before.server} is stopped: it had no release that worked before"
    if not before.running:
        return f"{before.server} is stopped, as it was before"
    return f"{before.server} serves {before.release} again"


def label(action: Action) -> str:
    return f"{action.kind} {action.about}" if action.about else action.kind


def describe(exc: Exception) -> str:
    """An error in one line, with the end of a log when it carries one."""
    if isinstance(exc, SpecctlError):
        log = exc.context.get("log") or exc.context.get("output") or exc.context.get("seen") or ""
        return f"{exc.message}" + (f" [{log.splitlines()[-1]}]" if log.strip() else "")
    return f"{type(exc).__name__}: {exc}"


def as_specctl_error(exc: Exception, host: str, action: Action | None) -> SpecctlError:
    """The same failure, with host and step in its context."""
    step = label(action) if action else "start"
    if not isinstance(exc, SpecctlError):
        exc = SpecctlError(f"{type(exc).__name__}: {exc}", code="internal")
    exc.context = {
        "host": host,
        "step": step,
        **{k: v for k, v in exc.context.items() if k not in ("host", "step")},
    }
    return exc
