"""Where the rig's parts are: its Python, its shims and models, the two SGLang trees."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOME = Path(os.environ.get("SPECCTL_RIG_HOME", ROOT / ".rig"))

SHIMS = HERE / "shims"
MODELS = HERE / "models"
HOOKS = HERE / "hooks"
CACHE = HOME / "cache"  # what the plain server answered, see reference.py


def python() -> Path:
    """The interpreter that can import torch and everything else that SGLang needs."""
    return Path(os.environ.get("SPECCTL_RIG_PYTHON", HOME / "venv" / "bin" / "python"))


def tree(name: str) -> Path:
    """A folder that holds `sglang/`. "base": the published wheel; "dist": what `specctl build` made of it."""
    return Path(os.environ.get(f"SPECCTL_RIG_{name.upper()}", HOME / name))


def bench() -> Path:
    """A folder for PYTHONPATH: what sglang.bench_serving imports beyond what the server needs."""
    return Path(os.environ.get("SPECCTL_RIG_BENCH", HOME / "bench"))


def why_not() -> str | None:
    """Why no server can be started here, or None."""
    needed = [
        python(),
        tree("base") / "sglang",
        tree("dist") / "sglang",
        MODELS / "target" / "model.safetensors",
    ]
    missing = [str(path) for path in needed if not path.exists()]
    return f"the rig is not made yet (run `make rig`): {missing[0]} is missing" if missing else None
