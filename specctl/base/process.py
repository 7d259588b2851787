"""Running the tools that know the work better: uv, pip, git. Output is kept for the error, never printed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specctl.errors import UsageError


@dataclass(frozen=True)
class Finished:
    """One finished tool."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def tail(self) -> str:
        """The last lines of what it said, for an error's context."""
        text = self.stderr if self.stderr.strip() else self.stdout
        return "\n".join(text.rstrip().splitlines()[-12:])


Run = Callable[..., Finished]


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    timeout_s: float = 1800.0,
) -> Finished:
    """Run one command to its end.

    Args:
        env: added to this process's environment.
        timeout_s: seconds; the command is killed then and reported as exit code 124.

    Raises:
        OSError: there is no such program.
    """
    try:
        done = subprocess.run(
            list(argv),
            env={**os.environ, **(env or {})},
            cwd=cwd,
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        said = (exc.stderr or b"").decode("utf-8", "replace")
        return Finished(124, "", f"{said}\nno end after {timeout_s:g} s")
    return Finished(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


def untrusted(said: str) -> bool:
    """Whether a tool of ours ended because of a certificate: mostly that of a proxy with a CA of its own."""
    return (
        re.search(r"certificate (verify|verification) failed|peer certificate|SSL certificate problem", said)
        is not None
    )


def uv_binary() -> str:
    """Path of the uv that came with specctl. Raises UsageError when it is gone."""
    from uv import find_uv_bin

    try:
        return str(find_uv_bin())
    except FileNotFoundError as exc:
        raise UsageError("there is no uv beside specctl", hint="install it: pip install uv") from exc
