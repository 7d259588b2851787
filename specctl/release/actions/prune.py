"""Remove old releases, and the pushed wheels and cached packages that none of the others needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specctl.release.actions.base import Action
from specctl.release.context import Context
from specctl.release.words import counted


@dataclass(frozen=True)
class Prune(Action):
    """The host refuses what a `current` points to, whatever the plan says."""

    kind: ClassVar[str] = "prune"
    cleanup: ClassVar[bool] = True

    releases: tuple[str, ...]
    useless: tuple[str, ...] = ()  # those that also go when the run fails: failed and half ones

    def describe(self) -> str:
        return f"remove {counted(len(self.releases), 'old release')}: {', '.join(self.releases)}"

    def lease_s(self) -> float:
        return 780.0

    def apply(self, ctx: Context) -> None:
        ctx.remote.program("tree", op="remove_releases", releases=list(self.releases), timeout_s=600.0)
        ctx.remote.program("tree", op="remove_wheels", timeout_s=120.0)
