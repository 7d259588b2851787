"""Compares two folders that hooks/draft_kv.py wrote. Runs under the rig's Python (it needs numpy).

    compare_kv.py FOLDER OTHER NEWEST  ->  {rid: {"positions": n, "stale": n, "largest": difference}}

A position is stale when its draft KV differs by more than rounding can explain. The NEWEST positions of each
request are left out: a request may end before the draft has seen them, in either run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

ROUNDING = 1e-3  # float32; the values themselves are of the order of 1


def compare(mine: Path, other: Path, newest: int) -> dict[str, float]:
    a, b = np.load(mine), np.load(other)
    positions = min(a.shape[1], b.shape[1]) - newest
    difference = np.abs(a[:, :positions] - b[:, :positions]).max(axis=(0, 2, 3))
    return {
        "positions": positions,
        "stale": int((difference > ROUNDING).sum()),
        "largest": float(difference.max()),
    }


def main() -> None:
    mine, other, newest = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    both = sorted(p.name for p in mine.glob("*.npy") if (other / p.name).exists())
    print(
        json.dumps({name.removesuffix(".npy"): compare(mine / name, other / name, newest) for name in both})
    )


if __name__ == "__main__":
    main()
