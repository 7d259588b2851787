"""The supervisor of a host without systemd: specctl brings it along, and has it running before any stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specctl.release.actions.base import Action
from specctl.release.context import Context
from specctl.service.supervisor import INSTALL_S


@dataclass(frozen=True)
class BringSupervisor(Action):
    """Install supervisor below the root and start it. It has no undo: idle, it is in nobody's way."""

    kind: ClassVar[str] = "bring-supervisor"

    service: str  # a server of the host; all of them share one supervisor
    root: str
    wheels: str | None  # the pushed wheels' folder; None: the host's own index

    def describe(self) -> str:
        source = self.wheels or "the host's package index"
        return f"install supervisor below {self.root} from {source}, and start it"

    def lease_s(self) -> float:
        return 2 * INSTALL_S + 120.0

    def apply(self, ctx: Context) -> None:
        ctx.services(self.service).prepare()
