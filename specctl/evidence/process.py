"""Evidence 1: the process. One look says little, so it is judged over a window of looks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from specctl.evidence.model import Evidence, Kind, Verdict
from specctl.service.protocol import ServiceState

PROCESS_HINT = "see why it ended: specctl logs"


def judge_process(
    before: ServiceState | None, samples: Sequence[ServiceState], *, hold_s: float, invocation: str = ""
) -> Evidence:
    """Is it up, is it the process that was started, and did it stay the same one?

    Args:
        before: how it was before the restart; None when nothing was restarted or nothing ran.
        samples: looks over the hold window, in order; at least one.
        hold_s: length of that window in seconds.
        invocation: the one that the last deploy or restart started; "" when it is not known. A later one is
            no failure (the supervisor may have restarted it since), but it is said.
    """
    last = samples[-1]
    expected = f"active, one process for {hold_s:g} s" + (", started by this restart" if before else "")
    seen = describe(last)

    def verdict(verdict: Verdict, code: str, seen: str, hint: str | None = None) -> Evidence:
        return Evidence(Kind.PROCESS, verdict, code, expected, seen, last.unit, hint)

    if all(s.active == "unknown" for s in samples):
        return verdict(
            Verdict.UNKNOWN, "process-unknown", seen, "the supervisor does not answer: specctl doctor"
        )
    if not last.exists:
        return verdict(Verdict.FAIL, "process-no-unit", f"no unit {last.unit}", "deploy it: specctl deploy")
    identities = list(dict.fromkeys((s.invocation, s.main_pid) for s in samples if s.running))
    grew = [s.restarts for s in samples if s.restarts is not None]
    if len(identities) > 1 or (identities and not all(s.running for s in samples)) or len(set(grew)) > 1:
        seen = f"{len(identities)} processes within {hold_s:g} s, now {seen}"
        return verdict(Verdict.FAIL, "process-flapping", seen, PROCESS_HINT)
    if not last.running:
        return verdict(Verdict.FAIL, "process-not-running", seen, PROCESS_HINT)
    if before is not None and before.running and _same(before, last):
        seen = f"still the process from before the restart: {seen}"
        return verdict(Verdict.FAIL, "process-not-restarted", seen, "restart it: specctl restart")
    if invocation and last.invocation != invocation:
        seen = f"{seen}; not the invocation of the last specctl restart ({invocation}): restarted since"
    return verdict(Verdict.PASS, "process-steady", seen)


def describe(state: ServiceState) -> str:
    """One look in words."""
    parts = [f"{state.active} ({state.sub})" if state.sub else state.active]
    if state.main_pid:
        parts.append(f"pid {state.main_pid}")
    if state.invocation:
        parts.append(f"invocation {state.invocation}")
    if state.restarts:
        parts.append(f"{state.restarts} automatic restarts")
    if state.result and state.result != "success":
        parts.append(f"result {state.result}")
    return ", ".join(parts)


def _same(before: ServiceState, after: ServiceState) -> bool:
    if before.invocation and after.invocation:
        return before.invocation == after.invocation
    return before.main_pid == after.main_pid
