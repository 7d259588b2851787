"""Runs on the host: a service's processes, and the wait until they, their GPU memory and port are gone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from typing import Any

# a process is (PID, start time in clock ticks since boot): a PID alone may be reused
STEP_S = 0.2
GPU_EVERY_S = 2.0


def stat_fields(pid: int) -> list[str] | None:
    """/proc/PID/stat after the command's name: [state, ppid, pgrp, session, ...]; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            return handle.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None


def start_ticks(pid: int) -> int:
    """When the process started, in clock ticks since boot; 0 when it is gone or a zombie."""
    fields = stat_fields(pid)
    return 0 if fields is None or fields[0] in "ZX" else int(fields[19])


def alive(process: tuple[int, int]) -> bool:
    return process[1] != 0 and start_ticks(process[0]) == process[1]


def command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return "?"


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def cgroup_folders(cgroup: str) -> list[str]:
    """Where a unit's control group lies: version 2, hybrid, or systemd's own version 1 tree."""
    roots = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
    return [root + cgroup for root in roots if cgroup.strip("/") and os.path.isdir(root + cgroup)]


def in_cgroup(cgroup: str) -> set[int]:
    """PIDs of a control group and all groups below it."""
    pids: set[int] = set()
    for top in cgroup_folders(cgroup):
        for folder, _, files in os.walk(top):
            if "cgroup.procs" in files:
                try:
                    with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as handle:
                        pids.update(int(line) for line in handle.read().split())
                except OSError:
                    pass
    return pids


def tree(root: int) -> set[int]:
    """A process, its descendants, and what shares a process group or session with one of them."""
    facts = {pid: fields for pid in all_pids() for fields in [stat_fields(pid)] if fields}
    if root not in facts:
        return set()
    found = {root}
    while True:
        own = {str(p) for p in found}
        more = {p for p, f in facts.items() if own.intersection(f[1:4])} - found
        if not more:
            return found
        found |= more


def marked(marker: str) -> set[int]:
    """Processes whose environment holds `marker` (KEY=value): strays that left their group and parent."""
    found: set[int] = set()
    if not marker:
        return found
    for pid in all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as handle:
                if marker.encode() in handle.read().split(b"\0"):
                    found.add(pid)
        except OSError:
            continue
    return found


def members(params: dict[str, Any]) -> set[tuple[int, int]]:
    """Every process of the service, as (PID, start). Never this program or its parents."""
    pids = in_cgroup(params.get("cgroup") or "") | marked(params.get("marker") or "")
    if params.get("pid"):
        pids |= tree(int(params["pid"]))
    return {(pid, start_ticks(pid)) for pid in pids - {os.getpid(), os.getppid()} if start_ticks(pid)}


def gpu_pids() -> set[int]:
    """PIDs that nvidia-smi lists as holding GPU memory; empty without nvidia-smi."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return set()
    try:
        out = subprocess.run(
            [tool, "--query-compute-apps=pid", "--format=csv,noheader,nounits"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {int(word) for word in out.decode("ascii", "replace").split() if word.isdigit()}


def listeners(port: int) -> set[str]:
    """Socket inodes that listen on a TCP port, IPv4 or IPv6."""
    found: set[str] = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as handle:
                rows = handle.read().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                found.add(fields[9])
    return found


def holder(inodes: set[str]) -> str:
    """The process, "pid 12 (python3)", of who holds one of the sockets, as far as this user may see."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for pid in all_pids():
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{name}") in wanted:
                    return f"pid {pid} ({command(pid)})"
        except OSError:
            continue
    return "a process of another user"


def kill_all(processes: set[tuple[int, int]]) -> None:
    for process in processes:
        if alive(process):
            with contextlib.suppress(OSError):
                os.kill(process[0], signal.SIGKILL)


def await_gone(params: dict[str, Any]) -> dict[str, Any]:
    """Wait until the processes are gone, then until no GPU lists them and the port is free.

    params: pids ([[pid, start]]), cgroup, marker, port or None, deadline_s (then SIGKILL), grace_s (after
    that, give up).
    Returns killed, seconds, left ([pid, name]), gpu (PIDs), port (who holds it, "" when free).
    """
    begin = time.monotonic()
    old: set[tuple[int, int]] = {(int(p), int(s)) for p, s in params["pids"]}
    killed, asked_gpu = False, -GPU_EVERY_S
    gpu: set[int] = set()
    while True:
        age = time.monotonic() - begin
        left = {p for p in old | members({**params, "pid": None}) if alive(p)}
        old |= left
        killed = killed or bool(left and age >= params["deadline_s"])
        if killed:
            kill_all(left)
        if not left and age - asked_gpu >= GPU_EVERY_S:
            gpu, asked_gpu = gpu_pids() & {p for p, _ in old}, age
        busy = listeners(int(params["port"])) if not left and not gpu and params.get("port") else set()
        late = age >= params["deadline_s"] + params["grace_s"]
        if late or not (left or gpu or busy):
            return {
                "killed": killed,
                "seconds": age,
                "left": [[p, command(p)] for p, _ in sorted(left)],
                "gpu": sorted(gpu),
                "port": holder(busy) if busy else "",
            }
        time.sleep(STEP_S)


def describe(params: dict[str, Any]) -> dict[str, Any]:
    """The service's processes now, and the start time of its main process."""
    pid = int(params.get("pid") or 0)
    return {"pids": sorted(members(params)), "start": start_ticks(pid) if pid else 0}


if __name__ == "__main__":
    _params = globals()["params"]
    print(json.dumps(await_gone(_params) if _params["op"] == "await_gone" else describe(_params)))
