"""Arm the host's own undo before the first restart, disarm it when the new servers have passed."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from specctl.config.model import HostConfig
from specctl.release.actions.base import Action
from specctl.release.context import Context
from specctl.release.errors import UndoneByHost
from specctl.release.layout import Layout
from specctl.release.remote import Remote, program_source
from specctl.release.supervisors import Commands, commands_for
from specctl.release.units import unit_from_dict
from specctl.service.protocol import Service

GRACE_S = 15.0  # after the promised word has not come
POLL_S = 2.0
SETTLE_S = 240.0  # the longest that an undo at work is waited for, before it is ended and taken over


@dataclass(frozen=True)
class Before:
    """What one server goes back to."""

    server: str
    release: str | None  # None: there was nothing; the server is stopped and `current` removed
    unit: Mapping[str, Any]  # the unit of that release, or the new one where only its paths are needed
    secrets: str | None
    running: bool = True  # whether it is started again: one that was stopped before stays stopped


@dataclass(frozen=True)
class ArmDeadman(Action):
    """A watcher on the host that puts the old release back when the operator is not heard from again."""

    kind: ClassVar[str] = "arm-deadman"
    touches_service: ClassVar[bool] = False

    release: str
    servers: tuple[Before, ...]
    stop_s: float  # the longest stop among the servers
    grace_s: float = GRACE_S

    def describe(self) -> str:
        return "arm the host's own undo, should this machine be lost"

    def apply(self, ctx: Context) -> None:
        servers = [(ctx.services(b.server), b) for b in self.servers]
        arm(ctx.config, ctx.remote, self.release, servers, stop_s=self.stop_s, grace_s=self.grace_s)

    def undo(self, ctx: Context) -> None:
        disarm(ctx)


def arm(
    config: HostConfig,
    remote: Remote,
    release: str,
    servers: Sequence[tuple[Service, Before]],
    *,
    stop_s: float,
    grace_s: float = GRACE_S,
) -> None:
    """Write the orders on the host and start their watcher; it goes by the lease of `remote.run`'s lock.

    Args:
        release: in whose journal the host writes that it acted.
        stop_s: the longest stop among the servers, in seconds.
    """
    commands = commands_for(config, remote.host)
    orders = {
        "release": release,
        "journal": Layout(remote.root).release(release).journal,
        "grace_s": grace_s,
        "poll_s": POLL_S,
        "stop_s": stop_s + 60.0,
        "reload": [list(argv) for argv in commands.reload],
        "servers": [orders_for(service, before, commands) for service, before in servers],
    }
    run = remote.run
    remote.program(
        "deadman",
        op="arm",
        run=run,
        orders=orders,
        launch=[word.replace("{run}", run) for word in commands.launch],
        boot={path.replace("{run}", run): named(what, run) for path, what in commands.boot.items()},
        source=watcher_source(run),
    )


def watcher_source(run: str, first: str = "") -> str:
    """The program that watches on the host for one run; its argument is the root. `first` is done before."""
    return program_source("watcher", call=f"{first}import sys as _s\nwatch(_s.argv[1], {run!r})")


def named(what: str | Mapping[str, str], run: str) -> str | dict[str, str]:
    """A boot file's content for one run."""
    if isinstance(what, str):
        return what.replace("{run}", run)
    return {kind: target.replace("{run}", run) for kind, target in what.items()}


def make_room(remote: Remote) -> None:
    """Give back what was kept free on the host's disk for the way back."""
    remote.program("deadman", op="make_room")


def orders_for(service: Service, before: Before, commands: Commands) -> dict[str, Any]:
    """What the watcher does for one server, as data."""
    files = service.files(unit_from_dict(before.unit))
    return {
        "name": before.server,
        "previous": before.release,
        "secrets": before.secrets,
        "stop": [list(argv) for argv in commands.stop(service.name)],
        "start": [list(argv) for argv in commands.start(service.name)]
        if before.release and before.running
        else [],
        "check": list(commands.check(service.name)),
        "files": [
            {
                "path": f.path,
                "mode": f.mode,
                "data": base64.b64encode(f.data).decode() if before.release else None,
            }
            for f in files
        ],
    }


def disarm(ctx: Context) -> None:
    """Claim the orders, so that the host does not act beside us.

    Raises:
        UndoneByHost: the host has acted already, or is at it: it had not heard from us for too long.
    """
    if ctx.remote.program("deadman", op="disarm", run=ctx.remote.run)["fired"]:
        raise UndoneByHost(
            f"{ctx.host.name} undid the change by itself: it had not heard from here for too long",
            context={"host": ctx.host.name},
            hint="the link to the host is slow or was lost; deploy again when it holds",
        )


def settle_deadman(remote: Remote, run: str | None) -> Mapping[str, Any]:
    """Claim what an earlier run armed, and wait for one that is acting right now.

    The answer has `fired`, and after that `outcome` (text) and `whole` (what served before runs again).
    """
    answer = remote.program("deadman", op="disarm", run=run)
    if answer["fired"] and answer["state"] == "firing":
        remote.program("deadman", op="settle", wait_s=SETTLE_S, timeout_s=SETTLE_S + 20.0)
        answer = remote.program("deadman", op="disarm", run=run)
    return dict(answer)


@dataclass(frozen=True)
class DisarmDeadman(Action):
    """The servers have passed: the host need not watch any more, nor keep secrets for a way back."""

    kind: ClassVar[str] = "disarm-deadman"
    cleanup: ClassVar[bool] = True  # the watcher itself leaves alone what has passed

    servers: tuple[str, ...]

    def describe(self) -> str:
        return "disarm the host's own undo"

    def apply(self, ctx: Context) -> None:
        disarm(ctx)
        ctx.remote.program("tree", op="forget_secrets", servers=list(self.servers))
