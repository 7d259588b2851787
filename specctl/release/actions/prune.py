"""Remove old releases, and the pushed wheels and cached packages that none of the others needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specctl.release.actions.base import Action
from specctl.release.context import Context


@dataclass(frozen=True)
class Prune(Action):
    """The host refuses what a `current` points to, whatever the plan says."""

    kind: ClassVar[str] = "prune"
    cleanup: ClassVar[bool] = True

    releases: tuple[str, ...]

    def describe(self) -> str:
        return f"remove {len(self.releases)} old releases: {', '.join(self.releases)}"

    def lease_s(self) -> float:
        return 660.0

    def apply(self, ctx: Context) -> None:
        ctx.remote.program("tree", op="remove_releases", releases=list(self.releases), timeout_s=600.0)
        ctx.remote.program("tree", op="remove_wheels", timeout_s=120.0)
