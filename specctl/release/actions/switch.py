"""Switch one server to a release: stop, unit, secrets, `current`, start. Undone in the reverse order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from specctl.config.model import ServerConfig
from specctl.release.actions.base import Action
from specctl.release.actions.old import start_old
from specctl.release.clock import stamp
from specctl.release.context import PATIENCE_S, Context
from specctl.release.errors import ReleaseError
from specctl.release.secret import args_file, env_file, secret_digest, secret_files
from specctl.release.units import unit_from_dict
from specctl.service.state import ServerState, write_state


def server_config(ctx: Context, name: str) -> ServerConfig:
    return next(s for s in ctx.config.servers if s.name == name)


@dataclass(frozen=True)
class Stop(Action):
    """Stop a server and wait until its processes and their GPU memory are gone.

    Its undo is the last step of a way back: start what served before, and see that it answers.
    """

    kind: ClassVar[str] = "stop"
    touches_service: ClassVar[bool] = True

    server: str
    running: bool  # when the plan was made
    stop_s: float
    start_s: float
    port: int
    previous: Mapping[str, Any] | None = (
        None  # the good state that its undo starts again; None: nothing served
    )

    def describe(self) -> str:
        if not self.running:
            return f"make sure that {self.server} is stopped"
        return f"stop {self.server} (up to {self.stop_s:.0f} s)"

    def lease_s(self) -> float:
        return self.stop_s + 2 * PATIENCE_S

    def apply(self, ctx: Context) -> None:
        ctx.services(self.server).stop(self.stop_s)

    def undo(self, ctx: Context) -> None:
        if self.previous is not None and self.running:
            start_old(
                ctx, self.server, self.previous, port=self.port, stop_s=self.stop_s, start_s=self.start_s
            )


@dataclass(frozen=True)
class InstallUnit(Action):
    """Write the unit and let the supervisor read it."""

    kind: ClassVar[str] = "install-unit"
    touches_service: ClassVar[bool] = True

    server: str
    unit: Mapping[str, Any]
    previous: Mapping[str, Any] | None = None  # the unit of the last good state

    def describe(self) -> str:
        return f"{'change' if self.previous else 'install'} the unit of {self.server}"

    def apply(self, ctx: Context) -> None:
        ctx.services(self.server).install(unit_from_dict(self.unit))

    def undo(self, ctx: Context) -> None:
        service = ctx.services(self.server)
        if self.previous is None:
            service.uninstall()
        else:
            service.install(unit_from_dict(self.previous))


@dataclass(frozen=True)
class WriteSecrets(Action):
    """Write the secret files, mode 0600; the values are read now and go nowhere else."""

    kind: ClassVar[str] = "write-secrets"
    touches_service: ClassVar[bool] = True

    server: str
    digest: str | None  # salted; "new" before the host has a salt
    previous: str | None = None
    owner: str | None = None  # the user that the server runs as, where that is not who writes

    def describe(self) -> str:
        return (
            f"write the secrets of {self.server}" if self.digest else f"remove the secrets of {self.server}"
        )

    def apply(self, ctx: Context) -> None:
        config, paths = server_config(ctx, self.server), ctx.layout.server(self.server)
        files = secret_files(config, paths)
        salt = ctx.remote.program("tree", op="prepare", servers=[self.server])["salt"]
        digest = secret_digest(config, salt, ctx.secret)
        ctx.remote.program(
            "tree", op="keep_secrets", server=self.server, digest=digest, files=self._paths(ctx)
        )
        if config.secrets:
            ctx.host.write(env_file(config, ctx.secret), paths.secrets, mode=0o600, sudo=ctx.config.sudo)
        if config.secret_args and config.secret_file:
            ctx.host.write(
                args_file(config, ctx.secret), config.secret_file, mode=0o600, sudo=ctx.config.sudo
            )
        gone = [p for p in self._paths(ctx) if p not in files]
        # systemd reads the environment file as root; the other one is read by the server itself
        own = [p for p in files if p != paths.secrets]
        ctx.remote.program(
            "tree",
            op="note_secrets",
            server=self.server,
            digest=digest,
            remove=gone,
            own=own,
            owner=self.owner,
        )

    def undo(self, ctx: Context) -> None:
        ctx.remote.program(
            "tree", op="restore_secrets", server=self.server, digest=self.previous, files=self._paths(ctx)
        )

    def _paths(self, ctx: Context) -> list[str]:
        """Every file that may hold secrets of this server, used now or not."""
        config = server_config(ctx, self.server)
        return [ctx.layout.server(self.server).secrets, *([config.secret_file] if config.secret_file else [])]


@dataclass(frozen=True)
class Flip(Action):
    """Point `current` at the release, in one rename."""

    kind: ClassVar[str] = "flip"
    touches_service: ClassVar[bool] = True

    server: str
    release: str
    previous: str | None = None

    def describe(self) -> str:
        return f"point {self.server} at {self.release}" + (f" (now {self.previous})" if self.previous else "")

    def apply(self, ctx: Context) -> None:
        ctx.remote.program("tree", op="flip", server=self.server, release=self.release, need_complete=True)

    def verify(self, ctx: Context) -> None:
        current = ctx.layout.server(self.server).current
        seen = ctx.remote.command(["readlink", current], timeout_s=30.0).text.strip()
        if seen.rsplit("/", 1)[-1] != self.release:
            raise ReleaseError(
                f"{current} on {ctx.host.name} points to {seen!r}, not to {self.release}",
                code="flip-lost",
                context={"host": ctx.host.name, "server": self.server},
                hint="something else changes it; see specctl history",
            )

    def undo(self, ctx: Context) -> None:
        ctx.remote.program("tree", op="flip", server=self.server, release=self.previous, need_complete=False)


@dataclass(frozen=True)
class Start(Action):
    """Start the server and note the place in its log from which its lines count."""

    kind: ClassVar[str] = "start"
    touches_service: ClassVar[bool] = True

    server: str
    release: str
    distribution: str
    port: int
    stop_s: float
    previous: str | None = None
    expectation: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> str:
        return f"start {self.server}"

    def lease_s(self) -> float:
        return self.stop_s + 2 * PATIENCE_S

    def apply(self, ctx: Context) -> None:
        service = ctx.services(self.server)
        cursor = service.restart(self.stop_s, port=self.port)
        state = ServerState(
            server=self.server,
            release=self.release,
            distribution=self.distribution,
            unit=service.name,
            cursor=cursor.value,
            invocation=service.state().invocation,
            restarted_at=stamp(ctx.clock),
            previous=self.previous,
            proven=False,
        )
        write_state(ctx.host, ctx.config.root, state, sudo=ctx.config.sudo)

    def undo(self, ctx: Context) -> None:
        ctx.services(self.server).stop(self.stop_s)
