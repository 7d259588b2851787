"""A marker that names older thresholds than expected: they were changed while the server ran. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specctl.evidence.marker import markers
from specctl.evidence.model import Evidence, Expectation, Verdict
from specctl.service.protocol import LogSlice

LIVE = ("threshold", "resume", "resume_steps")  # what /set_internal_state can change


def after_live_change(
    expectation: Expectation, log: LogSlice, marker: Evidence, info: Mapping[str, Any] | None
) -> Evidence:
    """The marker's evidence, once more, for a server whose thresholds may have been changed live.

    The marker is written at start, so it cannot name values that were set later; the server's own state does.
    Only these values are forgiven, only when every rank that must speak has spoken, and only when the state
    is exactly what is expected.

    Args:
        marker: what `judge_marker` found.
        info: the answer of /server_info as `look_alive` gives it; None when it was not asked.
    """
    if marker.code != "marker-wrong-values":
        return marker
    found = markers(log.lines)
    state = ((info or {}).get("json") or {}).get("state") or {}
    others = all(
        m.draft_sync == (expectation.draft_sync or m.draft_sync)
        and m.tp_size == (expectation.tp_size or m.tp_size)
        and m.worker == expectation.worker
        for m in found.values()
    )
    wanted = {name: getattr(expectation, name) for name in LIVE}
    agrees = all(state.get(name) == value for name, value in wanted.items() if value is not None)
    if not others or not agrees or not set(expectation.ranks) <= set(found):
        return marker
    now = " ".join(f"{name}={state.get(name)}" for name in LIVE)
    seen = f"started with {marker.seen}; changed while it ran: /server_info says {now}"
    return replace(marker, verdict=Verdict.PASS, code="marker-changed-live", seen=seen, hint=None)
