"""Running commands and waiting, for the lab's own use."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


class LabError(RuntimeError):
    """The lab itself is broken: never the fault of what is under test."""


def run(*argv: object, check: bool = True, stdin: str | None = None, timeout: float = 600) -> str:
    """Run a command on this machine and return stdout and stderr together.

    Raises:
        LabError: it ended with a non-zero exit code and `check` is set.
    """
    words = [str(word) for word in argv]
    done = subprocess.run(
        words,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    if check and done.returncode:
        raise LabError(f"{shlex.join(words)}: exit {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


def alive(pid: int) -> bool:
    """True while a process of this machine exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def wait_until(check: Callable[[], bool], *, seconds: float, what: str, every: float = 0.05) -> None:
    """Poll until `check` holds.

    Raises:
        LabError: it did not within `seconds`.
    """
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise LabError(f"{what}: not within {seconds:g} s")
        time.sleep(every)


def children(pid: int) -> list[int]:
    """Process ids of the direct children of a process."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
