"""An overlay as somebody in a hurry leaves it: everything is there but the hook in the worker that runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

FORGOTTEN = "sglang/srt/speculative/eagle_worker_v2.py"
OVERLAY = "dynamic-disable"


def forget_worker(overlays: Path, folder: Path, base: str) -> Path:
    """Copy the overlays into `folder` and leave the hooks of EAGLEWorkerV2 out; still to be pinned.

    Returns:
        The folder to give to `--overlays`.
    """
    shutil.copytree(overlays, folder)
    ours = folder / OVERLAY
    manifest: dict[str, Any] = yaml.safe_load((ours / "overlay.yaml").read_text())
    del manifest["edits"][FORGOTTEN]
    (ours / "overlay.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    (ours / "edits" / base / f"{FORGOTTEN.replace('/', '.')}.patch").unlink()
    return folder
