"""What a judged tree is reported as: findings, and the verdict that they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from specctl.overlay.model import State

# From good news to bad: an overlay as a whole has the state of its worst file.
_WORSE = (State.CLEAN, State.APPLIED, State.LANDED, State.DRIFTED, State.FOREIGN, State.CONFLICT)


@dataclass(frozen=True)
class Finding:
    """One fact about a tree.

    Attributes:
        overlay: None for a file that no overlay touches.
        path: below site-packages; None for the overlay as a whole.
        function: None when the fact is about the whole file.
        detail: several lines; `-` is what was expected, `+` what is there.
        hint: what to do about it; empty for good news.
        base: the release whose pins were used.
    """

    overlay: str | None
    path: str | None
    function: str | None
    state: State
    message: str
    detail: str = ""
    hint: str = ""
    base: str | None = None

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "state": self.state.value}


def worst(states: Iterable[State]) -> State:
    """The worst of some states; CLEAN for none."""
    return max(states, key=_WORSE.index, default=State.CLEAN)


def verdicts(findings: Iterable[Finding]) -> dict[str, State]:
    """Overlay -> the state of its worst finding."""
    out: dict[str, State] = {}
    for finding in findings:
        if finding.overlay is not None:
            out[finding.overlay] = worst([out.get(finding.overlay, State.CLEAN), finding.state])
    return out


def partial(overlay: str, base: str, findings: Iterable[Finding]) -> list[Finding]:
    """One finding when an overlay is in some of its files only: such a tree may not even start."""
    findings = list(findings)
    present = {f.path for f in findings if f.state is State.APPLIED}
    absent = sorted(f.path or "" for f in findings if f.state is State.CLEAN)
    if not present or not absent:
        return []
    return [
        Finding(
            overlay,
            None,
            None,
            State.CONFLICT,
            f"only partly applied: {len(present)} of {len(present) + len(absent)} files",
            detail="\n".join(f"not in {path}" for path in absent),
            hint="apply it again to complete it, or remove it",
            base=base,
        )
    ]
