"""Ends what the demo's host still runs, by the process ids that it wrote down itself."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

STOP_S = 30.0


def pids_below(root: Path, proc: Path = Path("/proc")) -> list[int]:
    """Processes whose command line or working directory lies in the root: servers, supervisor, watchers."""
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            place = str((entry / "cwd").readlink())
            if f"{root}/" in words or place.startswith(f"{root}/"):
                found.append(int(entry.name))
    return found


def end_host(root: Path, sleep: Callable[[float], None] = time.sleep) -> None:
    """SIGTERM to supervisor and all that is left, SIGKILL to what stays."""
    daemon = root / "supervisor" / "supervisord.pid"
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(daemon.read_text()), signal.SIGTERM)  # stops its servers, and starts none again
        end = time.monotonic() + STOP_S
        while pids_below(root) and time.monotonic() < end:
            sleep(0.2)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids_below(root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + 5
        while pids_below(root) and time.monotonic() < end:
            sleep(0.1)
