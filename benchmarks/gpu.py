"""The GPU that is measured on."""

from __future__ import annotations

import subprocess
from typing import Any


def gpu_facts() -> dict[str, Any]:
    """Name, driver and memory in use (MiB) of the first GPU; empty without one."""
    query = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,memory.used",
        "--format=csv,noheader,nounits",
        "-i",
        "0",
    ]
    try:
        line = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    name, driver, used = (x.strip() for x in line.strip().split(","))
    return {"gpu": name, "driver": driver, "used_mib": int(used)}
