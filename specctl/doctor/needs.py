"""What a base asks of a host, as far as its record and its lock say."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specctl.base.model import Base

# CUDA toolkit -> oldest Linux driver of its own generation (NVIDIA's release notes, table "CUDA Toolkit and
# Corresponding Driver Versions"). Within CUDA 12 an older driver starts, from 525 on, but cannot compile
# kernels for itself (PTX of a newer toolkit), which Triton and FlashInfer do.
DRIVERS = {
    (12, 4): (550, 54),
    (12, 6): (560, 28),
    (12, 8): (570, 26),
    (12, 9): (575, 51),
    (13, 0): (580, 65),
}
OLDEST_OF_CUDA_12 = (525, 60)
_RUNTIME = re.compile(r"^nvidia-cuda-runtime(?:-cu\d+)?==(\d+)\.(\d+)", re.MULTILINE)

GIB = 1 << 30
# Rough: a CUDA environment of 0.5.9 with torch, its libraries and FlashInfer's kernels; a CPU one.
CUDA_BYTES = 12 * GIB
CPU_BYTES = 3 * GIB
TEMPORARY_BYTES = 1 * GIB


@dataclass(frozen=True)
class Needs:
    """What a locked environment of one base needs on a host."""

    python: str  # PEP 440 specifier
    glibc: tuple[int, ...]
    pins: dict[str, str]  # package -> version
    cuda: tuple[int, int] | None  # toolkit that the lock's torch was built with; None: not a CUDA lock
    disk_bytes: int

    @property
    def driver(self) -> tuple[int, int] | None:
        """Oldest driver with which everything works; None where that is not known."""
        return DRIVERS.get(self.cuda) if self.cuda else None


def needs_of(base: Base, lock_text: str | None, *, cuda: bool) -> Needs:
    """The needs of a base on one target; `lock_text` is that target's lock, None where there is none."""
    found = _RUNTIME.search(lock_text or "") if cuda else None
    return Needs(
        python=base.python,
        glibc=version(base.glibc),
        pins=dict(base.pins),
        cuda=(int(found.group(1)), int(found.group(2))) if found else None,
        disk_bytes=CUDA_BYTES if cuda else CPU_BYTES,
    )


def version(text: str) -> tuple[int, ...]:
    """The numbers of a dotted version; what follows them is left out."""
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0]))
