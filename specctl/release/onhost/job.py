"""A long command that outlives the connection that started it: start it, look at it, stop it.

The command runs in a session of its own and writes into <folder>/job-<name>.{log,json,rc}. Whoever comes back
after a lost link finds it there, running or ended, and does not start it twice.

params: op (start | look | stop), folder, name, run, argv, env, tail (lines)
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

from specctl.release.onhost.common import read_bytes, read_json, remove_quietly, write_json

WRAPPER = 'rc=1; trap \'echo "$rc" > "$0.new" && mv "$0.new" "$0"\' EXIT; "$@"; rc=$?'


def started_at(pid: int) -> str | None:
    """The start time of a process in clock ticks, None when it has ended: a process id may be used again."""
    data = read_bytes(f"/proc/{pid}/stat")
    if not data:
        return None
    fields = data.rsplit(b")", 1)[1].split()
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def look(base: str, tail: int) -> dict[str, Any]:
    note = read_json(base + ".json")
    log = (read_bytes(base + ".log") or b"").decode("utf-8", "replace").splitlines()[-tail:]
    rc = read_bytes(base + ".rc")
    running = note is not None and rc is None and started_at(note["pid"]) == note["started"]
    if note is None:
        return {"state": "absent", "rc": None, "tail": []}
    if running:
        return {"state": "running", "rc": None, "tail": log}
    code = int(rc) if rc and rc.strip().isdigit() else None
    return {"state": "ended", "rc": code, "tail": log, "run": note["run"]}


def start(base: str, params: dict[str, Any]) -> dict[str, Any]:
    note = read_json(base + ".json")
    seen = look(base, 1)
    if seen["state"] == "running" or (seen["state"] == "ended" and note and note["run"] == params["run"]):
        if note and note["argv"] == params["argv"]:
            return look(base, params["tail"])
        stop(base)
    for end in (".rc", ".json"):
        remove_quietly(base + end)
    with open(base + ".log", "wb") as log:
        child = subprocess.Popen(
            ["sh", "-c", WRAPPER, base + ".rc", *params["argv"]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **params["env"]},
            start_new_session=True,
        )
    write_json(
        base + ".json",
        {"pid": child.pid, "started": started_at(child.pid), "run": params["run"], "argv": params["argv"]},
    )
    # a quick command is worth a short wait: it saves the caller a second trip
    for _ in range(20):
        if child.poll() is not None:
            break
        time.sleep(0.05)
    return look(base, params["tail"])


def stop(base: str) -> dict[str, Any]:
    note = read_json(base + ".json")
    if note is None or started_at(note["pid"]) != note["started"]:
        return {"stopped": False}
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(note["pid"], number)
        except ProcessLookupError:
            break
        for _ in range(50):
            if started_at(note["pid"]) is None:
                break
            time.sleep(0.1)
    return {"stopped": True}


def main(params: dict[str, Any]) -> dict[str, Any]:
    base = os.path.join(params["folder"], "job-" + params["name"])
    if params["op"] == "start":
        return start(base, params)
    if params["op"] == "stop":
        return stop(base)
    return look(base, params["tail"])
