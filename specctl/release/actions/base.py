"""The shape of an action: pure data, with the three things that can be done with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from specctl.release.context import Context


@dataclass(frozen=True)
class Action:
    """One step of a plan.

    Fields become JSON as they are, and hold no secret. `apply` may be called again after a lost link: it
    finds what it did before. `verify` raises when the effect is not there. `undo` leads back, also from half
    an effect, and also when it is called twice.
    """

    kind: ClassVar[str] = ""
    cleanup: ClassVar[bool] = False  # a failure is told, but the run has done what it was for
    touches_service: ClassVar[bool] = False  # from here on a failure must lead back to the old release

    @property
    def about(self) -> str | None:
        """The server this step is about; None when it is about the whole host."""
        return getattr(self, "server", None)

    def describe(self) -> str:
        """One line for people: what it will do."""
        raise NotImplementedError

    def lease_s(self) -> float:
        """The most seconds it may work without a word to the lock."""
        return 120.0

    def apply(self, ctx: Context) -> None:
        raise NotImplementedError

    def verify(self, ctx: Context) -> None:  # noqa: ARG002 (the port's signature)
        """Raises when the effect cannot be seen; the default has nothing to add to `apply`."""
        return

    def undo(self, ctx: Context) -> None:  # noqa: ARG002 (the port's signature)
        """Leads back to what was before; the default has nothing to undo."""
        return

    def as_dict(self) -> dict[str, Any]:
        return {"action": self.kind, "about": self.about, "does": self.describe(), **asdict(self)}
