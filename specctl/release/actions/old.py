"""The last step of a way back: the old release is started, and has to show that it lives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specctl.evidence.model import Expectation, Kind, Report, Verdict
from specctl.host.errors import FileRefused
from specctl.release.clock import stamp
from specctl.release.context import Context
from specctl.release.errors import ReleaseError
from specctl.release.gate import as_expectation, log_tail
from specctl.service.protocol import Cursor
from specctl.service.state import ServerState, write_state

POLL_S = 2.0
LIGHT = (Kind.PROCESS, Kind.ALIVE)  # it had passed the whole gate before


def start_old(
    ctx: Context, server: str, good: Mapping[str, Any], *, port: int, stop_s: float, start_s: float
) -> None:
    """Start what served before and wait until it answers.

    Raises:
        ReleaseError: it does not; the service is down.
    """
    service = ctx.services(server)
    cursor = service.restart(stop_s, port=port)
    expectation = as_expectation(good["expectation"]) if good.get("expectation") else None
    state = ServerState(
        server=server,
        release=good["release"],
        distribution=expectation.distribution if expectation else "",
        unit=service.name,
        cursor=cursor.value,
        invocation=service.state().invocation,
        restarted_at=stamp(ctx.clock),
        previous=None,
        proven=True,
    )
    kinds: tuple[Kind, ...] = LIGHT
    try:
        write_state(ctx.host, ctx.config.root, state, sudo=ctx.config.sudo)
    except FileRefused:  # a full or read-only disk: it serves nevertheless, but no restart is remembered
        kinds = (Kind.ALIVE,)
    if expectation is not None:
        _wait_alive(ctx, server, expectation, cursor, start_s, kinds)


def _wait_alive(
    ctx: Context,
    server: str,
    expectation: Expectation,
    cursor: Cursor,
    start_s: float,
    kinds: tuple[Kind, ...],
) -> None:
    end = ctx.clock.monotonic() + start_s
    while True:
        report = ctx.prove(server, expectation)
        if not _missing(report, kinds):
            return
        if ctx.clock.monotonic() > end or ctx.services(server).state().active == "failed":
            raise ReleaseError(
                f"the old release of {server} on {ctx.host.name} does not answer",
                code="old-release-down",
                context={
                    "host": ctx.host.name,
                    "server": server,
                    "seen": "; ".join(_missing(report, kinds)),
                    "log": log_tail(ctx.services(server), cursor),
                },
                hint=f"the service is down: specctl logs --hosts {ctx.host.name} --server {server}",
            )
        ctx.wait(POLL_S)


def _missing(report: Report, kinds: tuple[Kind, ...]) -> list[str]:
    return [
        f"{e.kind.value}: {e.seen}"
        for e in report.evidence
        if e.kind in kinds and e.verdict is not Verdict.PASS
    ]
