"""The way back on one host: undo what began, in reverse, and say plainly what is there now."""

from __future__ import annotations

from dataclasses import dataclass

from specctl.errors import SpecctlError
from specctl.host.shape import shaped
from specctl.release.actions.base import Action
from specctl.release.actions.deadman import ArmDeadman, Before, make_room, settle_deadman
from specctl.release.actions.folders import OpenRelease
from specctl.release.actions.prune import Prune
from specctl.release.actions.switch import Flip, Stop
from specctl.release.context import PATIENCE_S, Context
from specctl.release.errors import Interrupted, LockLost, PlanRefused, UndoneByHost
from specctl.release.journal import Journal
from specctl.release.leftovers import leftovers
from specctl.release.plan import Plan
from specctl.release.result import Outcome
from specctl.release.state import HostState
from specctl.release.stepping import LOST, describe, enter, label, persist


class LinkLost(Exception):
    """The host was lost on the way back."""


@dataclass
class WayBack:
    """Of one plan that failed. `notes` gets what went wrong beside it."""

    plan: Plan
    ctx: Context
    journal: Journal
    notes: list[str]

    def walk(self, begun: list[Action], error: SpecctlError) -> tuple[Outcome, str]:
        """Undo what began; the outcome, and in one sentence what is on the host now."""
        if isinstance(error, UndoneByHost):
            return self._by_the_host()
        armed = any(isinstance(a, ArmDeadman) for a in begun)
        if isinstance(error, LOST) and not self._reachable():
            return self._lost(armed)
        if isinstance(error, LockLost):
            return self._lost_lock(armed)
        self.ctx.unstoppable = True
        try:
            if armed:
                self._make_room()
            problems = self._undo(begun)
        except LinkLost:
            return self._lost(armed)
        except UndoneByHost:
            self._mark_failed(error)
            return self._by_the_host()
        self._mark_failed(error)
        self._clear_useless(begun)
        if self.plan.command == "deploy" and not any(s.before for s in self.plan.servers):
            self._tell_leftovers()
        told = "; ".join(f"{label(action)}: {text}" for action, text in problems)
        if any(isinstance(action, (Flip, Stop)) for action, _ in problems):
            return Outcome.DOWN, f"the way back failed: {told}"
        if not any(a.touches_service for a in begun):
            stopped = Outcome.INTERRUPTED if isinstance(error, Interrupted) else Outcome.FAILED
            return stopped, "nothing that serves was touched"
        state = "; ".join(_now(before) for before in befores(self.plan))
        if told:  # what served before was started and has answered, though
            state = f"{state}; but not all of the way back was done: {told}"
        if isinstance(error, Interrupted):
            return Outcome.INTERRUPTED, state
        serves = any(b.release and b.running for b in befores(self.plan))
        return (Outcome.ROLLED_BACK if serves else Outcome.FAILED), state

    def _undo(self, begun: list[Action]) -> list[tuple[Action, str]]:
        """Every undo in reverse, also after one has failed; what failed, and how."""
        problems: list[tuple[Action, str]] = []
        for action in reversed(begun):
            try:
                self._undo_one(action)
            except UndoneByHost:
                raise
            except Exception as exc:
                if isinstance(exc, LOST) and not self._reachable():
                    raise LinkLost from exc  # the host's own undo is still armed: it does the rest
                problems.append((action, describe(exc)))
                self.journal.end(f"undo {action.kind}", action.about, "failed", str(exc)[:500])
        return problems

    def _undo_one(self, action: Action) -> None:
        try:
            persist(self.ctx, lambda: enter(self.ctx, self.journal, action, "undo "))
        except (*LOST, LockLost, UndoneByHost):
            raise
        except SpecctlError as exc:  # a full disk takes no journal, but it may well take the old release back
            self._note(f"undo {label(action)} could not be written down: {exc}")
        persist(self.ctx, lambda: action.undo(self.ctx))
        self.journal.end(f"undo {action.kind}", action.about, "ok")

    def _make_room(self) -> None:
        try:
            persist(self.ctx, lambda: make_room(self.ctx.remote))
        except LOST as exc:
            raise LinkLost from exc
        except SpecctlError as exc:
            self._note(f"the room that was kept free for the way back is still taken: {exc}")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

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
            persist(self.ctx, lambda: self.ctx.enter("way back", PATIENCE_S))
        except LOST:
            return False
        except SpecctlError:
            return True
        return True

    def _mark_failed(self, error: SpecctlError) -> None:
        """A release that failed is never a target again; but one that serves elsewhere here is no failure."""
        blameless = isinstance(error, (Interrupted, *LOST, PlanRefused))
        if blameless or self.plan.release in [b.release for b in befores(self.plan)]:
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

    def _tell_leftovers(self) -> None:
        try:
            raw = self.ctx.remote.program("state", units={})
            text = leftovers(self.ctx.config, shaped(self.ctx.host.name, "state", raw, HostState.from_json))
        except SpecctlError:  # what failed is told anyway
            return
        if text:
            self._note(text)

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


def befores(plan: Plan) -> tuple[Before, ...]:
    """What a failure leads back to, of every server that a plan switches."""
    armed = (a for a in plan.actions if isinstance(a, ArmDeadman))
    return tuple(before for action in armed for before in action.servers)


def _now(before: Before) -> str:
    """One server after the way back."""
    if before.release is None:
        return f"{before.server} is stopped: it had no release that worked before"
    if not before.running:
        return f"{before.server} is stopped, as it was before"
    return f"{before.server} serves {before.release} again"
