"""Widen the heads of the tiny models from 16 to 64 without changing what they compute.

GPU kernels want heads of 64 or more. The rotary frequencies of a 16-wide head are every fourth one of a
64-wide head with the same base, so the old dimensions move to those places and zeros fill the rest: every dot
product stays the same. The softmax scale is 1/sqrt(width), so the queries grow by sqrt(64/16).
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path

import numpy as np

WIDTH = 64


def places(old: int, new: int) -> np.ndarray:
    """Where each dimension of an old head goes in a new one (rotary pairs i with i + width/2).

    Raises:
        ValueError: the new width is no multiple of the old one.
    """
    if new % old:
        raise ValueError(f"a head of {old} cannot become one of {new}")
    half = np.arange(old // 2) * (new // old)
    return np.concatenate([half, half + new // 2])


def widen_rows(weight: np.ndarray, old: int, new: int, scale: float = 1.0) -> np.ndarray:
    """[heads * old, n] -> [heads * new, n]: the output side of the q, k and v projections."""
    heads = weight.shape[0] // old
    wide = np.zeros((heads, new, weight.shape[1]), weight.dtype)
    wide[:, places(old, new)] = weight.reshape(heads, old, -1) * scale
    return wide.reshape(heads * new, -1)


def widen_columns(weight: np.ndarray, old: int, new: int) -> np.ndarray:
    """[n, heads * old] -> [n, heads * new]: the input side of the o projection."""
    return np.ascontiguousarray(widen_rows(np.ascontiguousarray(weight.T), old, new).T)


def widen_model(source: Path, target: Path, width: int = WIDTH) -> None:
    """Copy a model folder with wider heads."""
    from safetensors.numpy import load_file, save_file

    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    old = config["head_dim"]
    weights = load_file(source / "model.safetensors")
    for name, weight in weights.items():
        if name.endswith("q_proj.weight"):
            weights[name] = widen_rows(weight, old, width, math.sqrt(width / old))
        elif name.endswith(("k_proj.weight", "v_proj.weight")):
            weights[name] = widen_rows(weight, old, width)
        elif name.endswith("o_proj.weight"):
            weights[name] = widen_columns(weight, old, width)
    for path in source.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            shutil.copyfile(path, target / path.name)
    (target / "config.json").write_text(json.dumps({**config, "head_dim": width}, indent=1))
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="folder of model folders (the CPU rig's)")
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    for config in sorted(args.source.glob("*/config.json")):
        widen_model(config.parent, args.target / config.parent.name)


if __name__ == "__main__":
    main()
