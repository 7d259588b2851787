"""From a file, or a folder of files, to an `Inventory`: the one entry to `specctl.config`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from specctl.config.model import Inventory


def load_inventory(path: Path, *, environ: Mapping[str, str]) -> Inventory:
    """Read and check an inventory file, or every *.yaml of a folder.

    `environ` gives HOME, for a leading `~` in paths on the operator's machine; nothing else is read from it.

    Raises:
        InventoryError: everything that is wrong at once, each with file, line, column, path and a suggestion.
    """
    raise NotImplementedError
