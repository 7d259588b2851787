"""Runs on the host: one run of SGLang's own load generator, with the thresholds changed around it.

Whatever happens, the load ends and the thresholds are what they were: when it is done, when it fails, when
the link to the operator is lost, and when it is told to stop.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from typing import Any

from specctl.evidence.onhost.web import Client, answer, api_key, client
from specctl.tune.onhost.switch import change, look, settled

PICKED = (
    "completed",
    "output_throughput",
    "median_tpot_ms",
    "p99_itl_ms",
    "median_ttft_ms",
    "total_input_tokens",
    "total_output_tokens",
    "concurrency",
    "duration",
)
TAIL = 4000  # characters of the generator's output that are reported


class Stopped(BaseException):
    """SIGTERM, SIGINT or SIGHUP."""


def stop(_signal: int, _frame: Any) -> None:
    raise Stopped


def generate(params: dict[str, Any], env: dict[str, str]) -> dict[str, Any]:
    """Run the generator in a process group of its own; code, tail of its output, its result or None."""
    folder, output = params["folder"], os.path.join(params["folder"], "result.jsonl")
    if os.path.exists(output):
        os.unlink(output)
    log = os.path.join(folder, "bench.log")
    with open(log, "wb") as handle:
        process = subprocess.Popen(
            [*params["argv"], "--output-file", output],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with open(os.path.join(folder, "pid"), "w", encoding="ascii") as pid:
            pid.write(str(process.pid))
        try:
            code = process.wait(params["limit_s"])
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
        result = {name: raw.get(name) for name in PICKED}
        os.unlink(output)  # it holds all of /server_info, keys included
    except (OSError, ValueError, IndexError):
        pass
    return {"code": code, "tail": tail, "result": result}


def end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def measure(web: Client, params: dict[str, Any], key: str | None) -> dict[str, Any]:
    values, before = params.get("values"), params.get("before")
    env = {**os.environ, **params["env"], "PYTHONDONTWRITEBYTECODE": "1"}
    if key:
        env["OPENAI_API_KEY"] = key
    try:
        if values:
            said = change(web, values)
            if said["refused"]:
                return {"refused": said["refused"]}
            settled(web, values)
        steps = counters(web)
        found = generate(params, env)
        found["counters"] = [steps, counters(web)]
        return found
    finally:
        if values and before:
            change(web, before)


def counters(web: Client) -> dict[str, Any]:
    """What the switch has counted so far, of the first group of ranks."""
    ranks = look(web)["ranks"]
    return dict(ranks[0]["dynamic"] or {}) if ranks else {}


def restore(web: Client, params: dict[str, Any]) -> dict[str, Any]:
    """End a generator that was left over, and put the thresholds back where they differ."""
    try:
        with open(os.path.join(params["folder"], "pid"), encoding="ascii") as handle:
            pid = int(handle.read())
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            if b"sglang.bench_serving" in handle.read():
                end_group(pid)
    except (OSError, ValueError):
        pass
    before = params.get("before")
    if not before:
        return {"refused": None, "look": look(web)}
    end = time.monotonic() + 60
    while True:
        said = change(web, before)
        if said["answered"] or time.monotonic() > end:
            return {**said, "look": settled(web, before)}
        time.sleep(1.0)


if __name__ == "__main__":
    _params = globals()["params"]
    _web = client(_params)
    for _name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(_name, stop)
    if _params["op"] == "restore":
        answer(restore(_web, _params))
    answer(measure(_web, _params, api_key(list(_params.get("key_files") or []), _params.get("key"))))
