"""Thresholds that were changed while the server ran: the marker cannot know, the server does. Pure.

The marker is written at start. A later change is in the log too, as a line of the same invocation, and in the
server's own state. Expected values that differ from the marker's are accepted only when both say so; a state
that differs from what is expected is a finding even under a marker that is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from specctl.evidence.marker import markers
from specctl.evidence.model import Evidence, Expectation, Marker, Verdict
from specctl.service.protocol import LogLine, LogSlice

LIVE = ("threshold", "resume", "resume_steps")  # what /set_internal_state can change
CHANGE_TEXT = "Dynamic speculation: threshold "  # ... 4 -> 9, resume 2 -> 7, resume_steps 4 -> 4
_CHANGE = re.compile(r"Dynamic speculation: (threshold \d+ -> .*)")
_VALUE = re.compile(r"(threshold|resume|resume_steps) -?\d+ -> (-?\d+)")


def changed_to(lines: Sequence[LogLine]) -> dict[str, int]:
    """The values after the last live change in these lines; empty when there was none."""
    found = [match for match in (_CHANGE.search(line.text) for line in lines) if match]
    return {name: int(value) for name, value in _VALUE.findall(found[-1].group(1))} if found else {}


def after_live_change(
    expectation: Expectation,
    log: LogSlice,
    marker: Evidence,
    info: Mapping[str, Any] | None,
    changes: Sequence[LogLine],
) -> Evidence:
    """The marker's evidence, once more, beside the state of the running server.

    Args:
        log: the lines with the marker.
        marker: what `judge_marker` found in them.
        info: the answer of /server_info as `look_alive` gives it; None when it was not asked.
        changes: lines of this invocation that contain `CHANGE_TEXT`.
    """
    state = ((info or {}).get("json") or {}).get("state") or {}
    wanted = {name: getattr(expectation, name) for name in LIVE}
    differs = {n: v for n, v in wanted.items() if v is not None and n in state and state[n] != v}
    now = " ".join(f"{name}={state.get(name)}" for name in LIVE)
    if marker.verdict is Verdict.PASS and differs and expectation.threshold is not None:
        seen = f"started as planned, but /server_info now says {now}"
        hint = "it was changed while it ran: set it back, or write it into the inventory (specctl threshold)"
        return replace(marker, verdict=Verdict.FAIL, code="marker-overridden-live", seen=seen, hint=hint)
    if marker.code != "marker-wrong-values" or differs or not state:
        return marker
    said = changed_to(changes)
    logged = bool(said) and all(said.get(name) == state.get(name) for name in LIVE if name in state)
    found = markers(log.lines)
    if not logged or not _else_as_planned(expectation, found) or not set(expectation.ranks) <= set(found):
        return marker
    seen = f"started with {marker.seen}; changed while it ran: its log and /server_info say {now}"
    return replace(marker, verdict=Verdict.PASS, code="marker-changed-live", seen=seen, hint=None)


def _else_as_planned(expectation: Expectation, found: Mapping[int, Marker]) -> bool:
    """Whether all that no live change can explain is as expected, on every rank."""
    return all(
        m.draft_sync == (expectation.draft_sync or m.draft_sync)
        and m.tp_size == (expectation.tp_size or m.tp_size)
        and m.worker == expectation.worker
        for m in found.values()
    )
