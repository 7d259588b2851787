"""Runs on the host: one run of SGLang's own load generator, with the thresholds changed around it.

Whatever happens, the load ends and the thresholds are what they were: when it is done, when it fails, when
the link to the operator is lost, and when it is told to stop.
"""

from __future__ import annotations

import os
import time
from typing import Any

from specctl.evidence.onhost.generator import end_group, generate, generator_env, stop_on_signals
from specctl.evidence.onhost.web import Client, answer, api_key, client
from specctl.tune.onhost.switch import change, look, settled

NUMBERS = (
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


def measure(web: Client, params: dict[str, Any], key: str | None) -> dict[str, Any]:
    values, before = params.get("values"), params.get("before")
    env = generator_env(params["env"], key)
    try:
        if values:
            said = change(web, values)
            if said["refused"]:
                return {"refused": said["refused"]}
            settled(web, values)
        steps = counters(web)
        found = generate(params["argv"], params["folder"], env, params["limit_s"], NUMBERS)
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
    stop_on_signals()
    if _params["op"] == "restore":
        answer(restore(_web, _params))
    answer(measure(_web, _params, api_key(list(_params.get("key_files") or []), _params.get("key"))))
