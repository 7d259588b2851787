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
from specctl.overlay.model import Overlay, State
from specctl.overlay.store import OverlayStore

__all__ = [
    "Composition",
    "ManifestError",
    "Overlay",
    "OverlayConflict",
    "OverlayStore",
    "Problem",
    "State",
    "TreeError",
    "TreeWriteError",
    "UnsupportedBaseError",
    "apply_to_tree",
    "compose",
    "remove_from_tree",
]
