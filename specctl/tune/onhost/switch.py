"""Used on the host: what the server says of its switch, and a change of its thresholds.

/server_info also holds the API key, so only named keys of it leave this process.
"""

from __future__ import annotations

import time
from typing import Any

from specctl.evidence.onhost.web import Client, detail_of

NAMES = {
    "threshold": "speculative_disable_batch_threshold",
    "resume": "speculative_resume_batch_threshold",
    "resume_steps": "speculative_resume_steps",
}
STATE_KEYS = ("last_gen_throughput", "effective_max_running_requests_per_dp")


def look(web: Client, timeout_s: float = 20.0) -> dict[str, Any]:
    """error (None: it answered), at (this host's clock), ranks (a dict for each group), device, graphs."""
    found = web.ask("/server_info", None, timeout_s)
    if found["status"] == 404:
        found = web.ask("/get_server_info", None, timeout_s)
    info = found["json"]
    out: dict[str, Any] = {"at": time.time(), "error": None, "ranks": [], "device": None, "graphs": None}
    if found["status"] != 200:
        out["error"] = found["error"] or "/server_info {} {}".format(found["status"], detail_of(info) or "")
        return out
    states = info.get("internal_states") if isinstance(info, dict) else None
    if not isinstance(states, list) or not all(isinstance(s, dict) for s in states):
        out["error"] = "/server_info 200 with an answer of an unknown shape"
        return out
    for state in states:
        rank = {k: state.get(k) for k in STATE_KEYS if isinstance(state.get(k), (int, float))}
        dynamic = state.get("dynamic_speculation")
        rank["dynamic"] = dynamic if isinstance(dynamic, dict) else None
        out["ranks"].append(rank)
    out["device"] = info.get("device") if isinstance(info.get("device"), str) else None
    out["graphs"] = (
        not info["disable_cuda_graph"] if isinstance(info.get("disable_cuda_graph"), bool) else None
    )
    return out


def change(web: Client, values: dict[str, Any], timeout_s: float = 60.0) -> dict[str, Any]:
    """Ask for new values; what is None is left to the server. refused: why it said no, else None."""
    wanted = {NAMES[name]: value for name, value in values.items() if value is not None}
    found = web.ask("/set_internal_state", {"server_args": wanted}, timeout_s)
    said = found["json"]
    if found["status"] is None:
        return {"refused": found["error"], "answered": False}
    if found["status"] in (404, 405):
        return {
            "refused": "it has no /set_internal_state, so its thresholds change with a restart only",
            "answered": True,
        }
    flags = said if isinstance(said, list) else [said]
    if found["status"] == 200 and flags and all(flag is True for flag in flags):
        return {"refused": None, "answered": True}
    reason = detail_of(said) if isinstance(said, dict) else None
    return {
        "refused": reason or "/set_internal_state {}, without a reason".format(found["status"]),
        "answered": True,
    }


def settled(web: Client, values: dict[str, Any], timeout_s: float = 10.0) -> dict[str, Any]:
    """Look until every rank shows these values, or the time is over."""
    end = time.monotonic() + timeout_s
    while True:
        seen = look(web)
        ranks = [rank["dynamic"] for rank in seen["ranks"]]
        if ranks and all(
            rank is not None and all(rank.get(k) == v for k, v in values.items() if v is not None)
            for rank in ranks
        ):
            return seen
        if time.monotonic() > end:
            return seen
        time.sleep(0.1)
