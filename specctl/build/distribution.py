"""What `specctl build` leaves behind and everything after it reads: the distribution folder.

DIR/sglang-0.5.9+specctl.1-py3-none-any.whl
DIR/dist.json            this module's Distribution
DIR/lock-cuda.txt        the base's full lock (hashes) without sglang itself, per target
DIR/lock-cpu.txt
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from specctl.errors import UsageError

DIST_JSON = "dist.json"


@dataclass(frozen=True)
class OverlayRecord:
    """One overlay inside a distribution."""

    name: str
    sha256: str  # of the overlay's manifest, modules and hook edits together


@dataclass(frozen=True)
class Distribution:
    """Provenance of one built wheel. Two builds of the same inputs give the same bytes and record."""

    version: str  # 0.5.9+specctl.1
    wheel: str  # file name in the same folder
    wheel_sha256: str
    base_version: str  # 0.5.9
    base_sha256: str  # of the published wheel, or of the built source tree
    overlays: tuple[OverlayRecord, ...]
    files: Mapping[
        str, str
    ]  # path inside the wheel -> sha256: what overlays added or edited, and _version.py
    locks: Mapping[str, str]  # target -> file name in the same folder
    tool_version: str

    def write(self, folder: Path) -> Path:
        """Write DIR/dist.json; keys sorted, so that it is byte-identical for the same content."""
        path = folder / DIST_JSON
        path.write_text(json.dumps(asdict(self), indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return path

    @classmethod
    def from_json(cls, text: str) -> Distribution:
        """From the content of a dist.json. Raises ValueError, TypeError or KeyError when it is none."""
        raw = json.loads(text)
        raw["overlays"] = tuple(OverlayRecord(**o) for o in raw["overlays"])
        return cls(**raw)

    @classmethod
    def load(cls, folder: Path) -> Distribution:
        """Read DIR/dist.json.

        Raises:
            UsageError: the folder holds no readable dist.json.
        """
        path = folder / DIST_JSON
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError, KeyError) as exc:
            raise UsageError(
                f"{folder} is not a distribution folder",
                code="not-a-distribution",
                context={"file": str(path), "cause": f"{type(exc).__name__}: {exc}"},
                hint="build one: specctl build --base 0.5.9 --output DIR",
            ) from exc
