"""What can go wrong with an overlay. Every error carries all problems at once, never the first one only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specctl.errors import SpecctlError, UsageError


@dataclass(frozen=True)
class Problem:
    """One reason why overlays do not fit, with the place where it shows."""

    message: str
    path: str | None = None  # below site-packages, with forward slashes
    overlays: tuple[str, ...] = ()
    function: str | None = None
    lines: str | None = None  # 1-based, as "12" or "12-14", in the base's own numbering
    detail: str = ""  # several lines: what was expected and what is there

    def __str__(self) -> str:
        where = self.path or ""
        if where and self.lines:
            where += f":{self.lines}"
        if self.function:
            where += f" ({self.function})"
        who = f"[{', '.join(self.overlays)}] " if self.overlays else ""
        return f"{who}{where}{': ' if where else ''}{self.message}"


class ManifestError(UsageError):
    """An overlay's own folder is wrong: a manifest, a pin, a patch or a module."""

    code = "overlay-manifest"


class UnsupportedBaseError(UsageError):
    """An overlay holds no pins for the asked base."""

    code = "overlay-unsupported-base"


class TreeError(UsageError):
    """The given path is no tree, wheel or environment that holds sglang."""

    code = "not-a-tree"


class TreeWriteError(SpecctlError):
    """The disk refused a change. `message` says whether the tree is as it was."""

    code = "overlay-write"


class OverlayConflict(SpecctlError):
    """Overlays do not fit each other or the tree. Nothing was written.

    Attributes:
        problems: every reason, in a stable order; never empty.
    """

    code = "overlay-conflict"

    def __init__(self, message: str, problems: Sequence[Problem], *, hint: str | None = None) -> None:
        context: dict[str, str] = {}
        for number, problem in enumerate(problems, 1):
            context[str(number)] = "\n".join([str(problem), *problem.detail.splitlines()])
        super().__init__(message, context=context, hint=hint)
        self.problems = tuple(problems)

    def as_dict(self) -> dict[str, object]:
        return {**super().as_dict(), "problems": [vars(p) for p in self.problems]}
