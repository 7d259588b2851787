"""Adding overlays to a tree and taking them out, next to others that are in it already."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from specctl.errors import UsageError
from specctl.overlay.apply import settle
from specctl.overlay.compose import compose, public
from specctl.overlay.errors import TreeError
from specctl.overlay.finding import verdicts
from specctl.overlay.judge import base_for, judge
from specctl.overlay.model import Overlay, State
from specctl.overlay.transaction import Disk
from specctl.overlay.tree import Tree, TreeKind


@dataclass(frozen=True)
class Settled:
    """What a tree holds after a change, and the paths that were written or removed for it."""

    base: str
    overlays: tuple[str, ...]
    changed: tuple[str, ...]


def add_overlays(
    tree: Tree, everyone: Sequence[Overlay], picked: Collection[str], *, in_environment: bool = False
) -> Settled:
    """Put the `picked` overlays into a tree; overlays that are in it stay.

    Args:
        everyone: all overlays that may be in the tree.
        in_environment: allow an installed environment, which a server may be running from.

    Raises:
        TreeError: a wheel, or an environment without `in_environment`.
        UnsupportedBaseError: a picked overlay holds no pins for the tree's release.
        OverlayConflict: something does not fit; nothing was written.
        TreeWriteError: the disk refused.
    """
    _check_kind(tree, in_environment)
    return _settle(tree, everyone, frozenset(picked), frozenset(picked), None)


def remove_overlays(
    tree: Tree, everyone: Sequence[Overlay], picked: Collection[str], *, in_environment: bool = False
) -> Settled:
    """Take the `picked` overlays out of a tree; others that are in it stay. Raises as `add_overlays`."""
    _check_kind(tree, in_environment)
    return _settle(tree, everyone, frozenset(picked), frozenset(), None)


def _settle(
    tree: Tree, everyone: Sequence[Overlay], picked: frozenset[str], add: frozenset[str], disk: Disk | None
) -> Settled:
    bases = [base for base in (base_for(tree, o) for o in everyone if o.name in picked) if base]
    if not bases:
        raise UsageError("no overlay with pins was named", hint="list them: specctl overlay list")
    base = public(tree.version) if tree.version else bases[0]
    known = [o for o in everyone if base in o.bases]
    # What is in the tree already takes part, so that a file with edits of several overlays can be understood.
    present = {name for name, state in verdicts(judge(tree, known)).items() if state is State.APPLIED}
    comp = compose([o for o in everyone if o.name in picked | present], base)
    wanted = (present - picked) | add
    changed = settle(tree.root, comp, wanted, disk=disk)
    return Settled(base, tuple(o.name for o in comp.overlays if o.name in wanted), tuple(changed))


def _check_kind(tree: Tree, in_environment: bool) -> None:
    if tree.kind is TreeKind.WHEEL:
        raise TreeError(f"{tree.root} is a wheel", hint="specctl build makes a new wheel with overlays in it")
    if tree.kind is TreeKind.INSTALLED and not in_environment:
        raise TreeError(
            f"{tree.root} is an installed environment, which may be serving",
            code="installed-environment",
            hint="build a distribution and install it (specctl build), or insist: --in-environment",
        )
