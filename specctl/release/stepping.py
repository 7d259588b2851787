"""What going forward and going back have in common: one step, its name, and patience with the link."""

from __future__ import annotations

from collections.abc import Callable

from specctl.errors import SpecctlError, internal_error
from specctl.host.errors import HostTimeout, Unreachable
from specctl.release.actions.base import Action
from specctl.release.context import PATIENCE_S, Context
from specctl.release.journal import Journal

RETRIES_S = (1.0, 3.0, 8.0)  # pauses before a step is tried again after a lost link
LOST = (Unreachable, HostTimeout)  # the host may be gone, or may hang


def persist(ctx: Context, call: Callable[[], None]) -> None:
    """Again after a lost link: what was done is found there, whatever the link said.

    But not beside the host's own undo, or another operator: that is asked first.
    """
    lost = False
    for pause in RETRIES_S:
        try:
            if lost:
                ctx.again()
            return call()
        except Unreachable:
            lost = True
            ctx.check()
            ctx.clock.sleep(pause)
    ctx.again()
    return call()


def enter(ctx: Context, journal: Journal, action: Action, verb: str = "") -> None:
    """Write down that a step begins, and promise to be heard from."""
    lease = max(action.lease_s(), PATIENCE_S)
    ctx.enter(f"{verb}{label(action)}", lease, journal, f"{verb}{action.kind}", action.about)


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
        exc = internal_error(exc)
    exc.context = {
        "host": host,
        "step": step,
        **{k: v for k, v in exc.context.items() if k not in ("host", "step")},
    }
    return exc
