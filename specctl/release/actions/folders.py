"""Make room for releases and servers below the root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specctl.release.actions.base import Action
from specctl.release.context import Context


@dataclass(frozen=True)
class PrepareRoot(Action):
    """The folders below the root, and the host's salt."""

    kind: ClassVar[str] = "prepare-root"

    root: str
    servers: tuple[str, ...]

    def describe(self) -> str:
        return f"make folders below {self.root}"

    def apply(self, ctx: Context) -> None:
        ctx.remote.program("tree", op="prepare", servers=list(self.servers))


@dataclass(frozen=True)
class OpenRelease(Action):
    """An empty release folder; what an interrupted install left in it is removed."""

    kind: ClassVar[str] = "open-release"

    release: str

    def describe(self) -> str:
        return f"open release {self.release}"

    def lease_s(self) -> float:
        return 300.0

    def apply(self, ctx: Context) -> None:
        ctx.remote.program("tree", op="open_release", release=self.release, timeout_s=240.0)


@dataclass(frozen=True)
class MarkComplete(Action):
    """COMPLETE, written last: from here on the release may be pointed to."""

    kind: ClassVar[str] = "mark-complete"

    release: str

    def describe(self) -> str:
        return f"mark {self.release} complete"

    def apply(self, ctx: Context) -> None:
        ctx.remote.program(
            "tree",
            op="complete",
            release=self.release,
            run=ctx.remote.run,
            by=ctx.operator.name,
            timeout_s=110.0,
        )
