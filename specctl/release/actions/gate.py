"""The gate: the restarted server answers, proves what was planned, and stays so for the hold window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from specctl.evidence.model import Report
from specctl.release.actions.base import Action
from specctl.release.context import PATIENCE_S, Context
from specctl.release.errors import GateFailed
from specctl.release.gate import as_expectation, failures, log_tail
from specctl.service.protocol import Cursor, ServiceState
from specctl.service.state import read_state

POLL_S = 1.0
SETTLE_S = 10.0  # a marker may reach the journal a little after the server answers


@dataclass(frozen=True)
class Gate(Action):
    """Passes only when every kind of evidence passes, and the process does not restart meanwhile."""

    kind: ClassVar[str] = "gate"
    touches_service: ClassVar[bool] = True

    server: str
    release: str
    expectation: Mapping[str, Any]
    start_s: float
    hold_s: float

    def describe(self) -> str:
        worker = self.expectation.get("worker")
        seen = (
            f"worker {worker}, threshold {self.expectation.get('threshold')}" if worker else "no speculation"
        )
        return (
            f"gate {self.server}: healthy within {self.start_s:.0f} s, {seen}, held for {self.hold_s:.0f} s"
        )

    def lease_s(self) -> float:
        return PATIENCE_S

    def apply(self, ctx: Context) -> None:
        remembered = read_state(ctx.host, ctx.config.root, self.server, sudo=ctx.config.sudo)
        cursor = Cursor(remembered.cursor if remembered else "")
        self._wait_ready(ctx, cursor, remembered.invocation if remembered else "")
        first = ctx.services(self.server).state()
        self._hold(ctx, cursor, first)
        report = self._prove(ctx)
        ctx.reports[self.server] = report
        if not report.ok:
            raise self._failed(ctx, cursor, "did not prove itself", failures(report))
        last = ctx.services(self.server).state()
        if not _same(first, last):
            raise self._failed(ctx, cursor, "was restarted inside the hold window", [_seen(last)])

    def _wait_ready(self, ctx: Context, cursor: Cursor, invocation: str) -> None:
        """Until /health answers 200; ends at once when the process that was started is gone."""
        end = ctx.clock.monotonic() + self.start_s
        url = self.expectation["url"]
        while True:
            answer = ctx.remote.program("ready", url=url, wait_s=5.0, timeout_s=20.0)
            if answer["status"] == 200:
                return
            state = ctx.services(self.server).state()
            another = bool(invocation) and state.invocation != invocation
            if another or state.active in ("failed", "inactive") or (state.restarts or 0) > 0:
                raise self._failed(ctx, cursor, "died while it was starting", [_seen(state)])
            invocation = state.invocation
            if ctx.clock.monotonic() > end:
                seen = f"{url}/health: {answer['status'] or 'no answer'} {answer['why']}"
                raise self._failed(ctx, cursor, f"was not healthy within {self.start_s:.0f} s", [seen])
            ctx.progress(f"waiting for {url} ({end - ctx.clock.monotonic():.0f} s left)")
            ctx.wait(POLL_S)

    def _hold(self, ctx: Context, cursor: Cursor, first: ServiceState) -> None:
        end = ctx.clock.monotonic() + self.hold_s
        while (left := end - ctx.clock.monotonic()) > 0:
            ctx.progress(f"healthy, {left:.0f} s to hold")
            ctx.wait(min(2 * POLL_S, left))
            now = ctx.services(self.server).state()
            if not _same(first, now):
                raise self._failed(ctx, cursor, "did not stay up for the hold window", [_seen(now)])

    def _prove(self, ctx: Context) -> Report:
        expectation = as_expectation(self.expectation)
        end = ctx.clock.monotonic() + SETTLE_S
        ctx.enter("gate: evidence", 4 * PATIENCE_S)
        while True:
            report = ctx.prove(self.server, expectation)
            if report.ok or ctx.clock.monotonic() > end:
                return report
            ctx.wait(2 * POLL_S)

    def _failed(self, ctx: Context, cursor: Cursor, how: str, seen: list[str]) -> GateFailed:
        return GateFailed(
            f"{self.server} on {ctx.host.name} {how}",
            context={
                "host": ctx.host.name,
                "server": self.server,
                "release": self.release,
                "evidence": "\n".join(seen),
                "log": log_tail(ctx.services(self.server), cursor),
            },
            hint=f"the whole log: specctl logs --hosts {ctx.host.name} --server {self.server}",
        )


def _same(first: ServiceState, now: ServiceState) -> bool:
    return now.running and (now.main_pid, now.invocation) == (first.main_pid, first.invocation)


def _seen(state: ServiceState) -> str:
    why = f", {state.result}" if state.result else ""
    restarts = "" if state.restarts is None else f", {state.restarts} restarts"
    return f"process: {state.unit} is {state.active} ({state.sub}{why}){restarts}"
