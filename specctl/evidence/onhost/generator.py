"""Used on the host: one run of SGLang's own load generator, in a process group that ends with us."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable
from typing import Any

TAIL = 4000  # characters of the generator's output that are reported


class Stopped(BaseException):
    """SIGTERM, SIGINT or SIGHUP."""


def stop(_signal: int, _frame: Any) -> None:
    raise Stopped


def stop_on_signals() -> None:
    """From here on a signal that ends this program is an exception, so that what it began is ended too."""
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, stop)


def generator_env(env: dict[str, str], key: str | None) -> dict[str, str]:
    """The generator's environment. It takes the API key from there, and from nowhere that others can read."""
    whole = {**os.environ, **env, "PYTHONDONTWRITEBYTECODE": "1"}
    return {**whole, "OPENAI_API_KEY": key} if key else whole


def generate(
    argv: list[str], folder: str, env: dict[str, str], limit_s: float, picked: Iterable[str]
) -> dict[str, Any]:
    """Run it; code (None: out of time), tail of its output, and the picked keys of its result or None."""
    output = os.path.join(folder, "result.jsonl")
    if os.path.exists(output):
        os.unlink(output)
    log = os.path.join(folder, "bench.log")
    with open(log, "wb") as handle:
        process = subprocess.Popen(
            [*argv, "--output-file", output],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with open(os.path.join(folder, "pid"), "w", encoding="ascii") as pid:
                pid.write(str(process.pid))
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process.pid)
            process.wait()
    with open(log, encoding="utf-8", errors="replace") as handle:
        tail = handle.read()[-TAIL:]
    result = None
    try:
        with open(output, encoding="utf-8") as handle:
            raw = json.loads(handle.read().splitlines()[-1])
        result = {name: raw.get(name) for name in picked}
        os.unlink(output)  # it holds all of /server_info, keys included
    except (OSError, ValueError, IndexError):
        pass
    return {"code": code, "tail": tail, "result": result}


def end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
