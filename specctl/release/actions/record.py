"""Write down that servers passed: from here on this is what a failure leads back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from specctl.release.actions.base import Action
from specctl.release.clock import stamp
from specctl.release.context import Context
from specctl.release.state import Good, ServerRecord
from specctl.service.state import read_state, write_state


@dataclass(frozen=True)
class Proven:
    """One server's new good state, but for when and by whom."""

    server: str
    release: str
    unit: Mapping[str, Any]
    unit_sha256: str
    expectation: Mapping[str, Any]
    has_secrets: bool


@dataclass(frozen=True)
class MarkGood(Action):
    """All servers of the run at once. A deploy pushes; a rollback drops what lies above its target."""

    kind: ClassVar[str] = "mark-good"

    release: str
    servers: tuple[Proven, ...]
    rollback: bool = False

    def describe(self) -> str:
        return f"mark {self.release} good for {', '.join(s.server for s in self.servers)}"

    def apply(self, ctx: Context) -> None:
        raw = ctx.remote.program("tree", op="goods", servers=[s.server for s in self.servers])
        goods = {}
        for proven in self.servers:
            seen = raw[proven.server]
            new = Good(
                release=proven.release,
                unit_sha256=proven.unit_sha256,
                at=stamp(ctx.clock),
                by=ctx.operator.name,
                run=ctx.remote.run,
                secrets=seen["secrets"] if proven.has_secrets else None,
                unit=proven.unit,
                expectation=proven.expectation,
            )
            stack = tuple(Good(**g) for g in seen["goods"])
            goods[proven.server] = [asdict(g) for g in next_goods(stack, new, rollback=self.rollback)]
        ctx.remote.program("tree", op="good", goods=goods, clear_failed=[self.release], run=ctx.remote.run)
        for proven in self.servers:
            state = read_state(ctx.host, ctx.config.root, proven.server, sudo=ctx.config.sudo)
            if state is not None:
                previous = ServerRecord(
                    proven.server, goods=tuple(Good(**g) for g in goods[proven.server])
                ).before
                state = replace(state, proven=True, previous=previous.release if previous else None)
                write_state(ctx.host, ctx.config.root, state, sudo=ctx.config.sudo)

    def undo(self, ctx: Context) -> None:
        ctx.remote.program("tree", op="ungood", servers=[s.server for s in self.servers], run=ctx.remote.run)


def next_goods(stack: tuple[Good, ...], new: Good, *, rollback: bool) -> tuple[Good, ...]:
    """The stack after `new` has passed.

    A deploy puts it on top, and only there. A rollback cuts the stack at the target: what lay above it is
    what the operator went away from, so that the next rollback goes further back. A target that is not in
    the stack (asked for by name) is put on top.
    """
    releases = [g.release for g in stack]
    if rollback and new.release in releases:
        return (*stack[: releases.index(new.release)], new)
    return (*(g for g in stack if g.release != new.release), new)
