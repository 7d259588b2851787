"""The wait for a stopped server: its processes, their GPU memory and its port must be gone."""

from __future__ import annotations

from collections.abc import Mapping

from specctl.host.protocol import Host
from specctl.service.errors import StillThere
from specctl.service.onhost import source
from specctl.service.protocol import StopOutcome

GRACE_S = 20.0  # after SIGKILL, for the kernel and the GPU driver to give back what was held
ORDER_S = 1.0
MARGIN_S = 5.0  # the supervisor kills at the deadline; we do it this much later if it has not


def list_processes(host: Host, facts: Mapping[str, object], *, sudo: bool) -> list[list[int]]:
    """[[pid, start ticks]] of every process of the service. `facts`: cgroup, marker, pid."""
    raw = host.script(source("processes"), {**facts, "op": "describe"}, sudo=sudo)
    return list(raw["pids"]) if isinstance(raw, dict) else []


def await_gone(
    host: Host,
    unit: str,
    facts: Mapping[str, object],
    pids: list[list[int]],
    *,
    timeout_s: float,
    port: int | None,
    sudo: bool,
) -> StopOutcome:
    """Wait for the processes to go, kill them at the deadline, and check that nothing of them is left.

    Raises:
        StillThere: a process outlives SIGKILL, a GPU still lists an old process, or the port is still held.
    """
    params = {
        **facts,
        "op": "await_gone",
        "pids": pids,
        "port": port,
        "deadline_s": timeout_s + MARGIN_S,
        "grace_s": GRACE_S,
    }
    whole = timeout_s + MARGIN_S + GRACE_S + 30.0
    raw = host.script(source("processes"), params, sudo=sudo, timeout_s=whole)
    if not isinstance(raw, dict):
        raise StillThere(f"whether {unit} is gone could not be read", context={"host": host.name})
    left = [f"{pid} ({name})" for pid, name in raw["left"]]
    problem = (
        f"processes {', '.join(left)} of {unit} outlived SIGKILL"
        if left
        else f"GPU memory is still held by processes {raw['gpu']} of {unit}, which are gone"
        if raw["gpu"]
        else f"port {port} is still held by {raw['port']}"
        if raw["port"]
        else ""
    )
    if problem:
        raise StillThere(
            problem,
            context={"host": host.name, "unit": unit, "waited": f"{raw['seconds']:.0f} s"},
            hint="end what holds it on the host, then start the server again",
        )
    # the supervisor's own SIGKILL comes at timeout_s after the order, which was a moment before this wait
    killed = bool(raw["killed"]) or (bool(pids) and float(raw["seconds"]) >= timeout_s - ORDER_S)
    return StopOutcome(was_running=bool(pids), killed=killed, seconds=float(raw["seconds"]))
