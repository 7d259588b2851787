"""Overlays: what specctl lays over a base, how it is pinned, applied, removed and judged."""

from __future__ import annotations

from specctl.overlay.apply import apply_to_tree, remove_from_tree
from specctl.overlay.compose import Composition, compose
from specctl.overlay.errors import (
    ManifestError,
    OverlayConflict,
    Problem,
    TreeError,
    TreeWriteError,
    UnsupportedBaseError,
)
from specctl.overlay.finding import Finding, verdicts, worst
from specctl.overlay.judge import judge
from specctl.overlay.model import Overlay, State
from specctl.overlay.store import OverlayStore
from specctl.overlay.tree import Tree

__all__ = [
    "Composition",
    "Finding",
    "ManifestError",
    "Overlay",
    "OverlayConflict",
    "OverlayStore",
    "Problem",
    "State",
    "Tree",
    "TreeError",
    "TreeWriteError",
    "UnsupportedBaseError",
    "apply_to_tree",
    "compose",
    "judge",
    "remove_from_tree",
    "verdicts",
    "worst",
]
