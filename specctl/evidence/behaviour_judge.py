"""What an exercise proves: off in the burst, on again when calm, on graphs while off, same texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specctl.evidence.behaviour import MOST_REQUESTS, Run, burst_size
from specctl.evidence.model import Evidence, Expectation, Kind, Verdict
from specctl.evidence.texts import compare

LOGS = "the switch says why in its log lines: specctl logs"


@dataclass(frozen=True)
class _Finding:
    verdict: Verdict
    code: str
    seen: str
    hint: str | None = None


def judge_behaviour(expectation: Expectation, run: Run) -> Evidence:
    """The first thing that is wrong, or that all is as it should be."""
    threshold = expectation.threshold
    if threshold is None or expectation.worker is None:
        expected = "no switch: no threshold, or no speculation, is configured"
        found = _Finding(Verdict.PASS, "behaviour-not-asked", "nothing to exercise")
    else:
        expected = (
            f"off above {threshold} requests, on again when calm, on graphs while off, same greedy texts"
        )
        found = _before_the_burst(threshold, run) or _the_burst(threshold, run) or _the_calm(threshold, run)
    where = f"{expectation.url}/server_info, /generate"
    seen = f"{found.seen}; {run.load}" if run.samples else found.seen
    return Evidence(Kind.BEHAVIOUR, found.verdict, found.code, expected, seen, where, found.hint)


def _before_the_burst(threshold: int, run: Run) -> _Finding | None:
    """Whether there was something to exercise, and every request was answered."""
    info = run.info
    if not info:
        seen = f"/server_info: {run.info_error or 'no object'}"
        hint = "is another program listening on this port?"
        return _Finding(Verdict.UNKNOWN, "behaviour-no-info", seen, hint)
    if not info.get("state"):
        seen = "/server_info has no dynamic_speculation: the switch is not part of this process"
        return _Finding(Verdict.FAIL, "behaviour-no-state", seen, "compare the route and install evidence")
    live = _live_threshold(info)
    if live != threshold and live is not None:
        seen = f"its threshold is {live} now, not {threshold}: it was changed while it ran"
        hint = "set it back, or write it into the inventory (specctl threshold), then exercise it again"
        return _Finding(Verdict.UNKNOWN, "behaviour-overridden-live", seen, hint)
    limit = info.get("limit")
    if isinstance(limit, int) and limit <= threshold:
        seen = f"at most {limit} requests run at once, so a batch never exceeds {threshold}"
        hint = "raise --max-running-requests, or lower the threshold"
        return _Finding(Verdict.FAIL, "behaviour-unreachable", seen, hint)
    if burst_size(threshold) > MOST_REQUESTS:
        seen = (
            f"{burst_size(threshold)} requests would be needed, more than the {MOST_REQUESTS} that are sent"
        )
        return _Finding(Verdict.UNKNOWN, "behaviour-too-large", seen, "exercise it with your own load")
    texts = (*run.alone, *run.burst)
    failed = sum(text is None for text in texts)
    if failed or not run.burst or not run.alone or not run.samples:
        reasons = "; ".join(dict.fromkeys(run.errors)) or "no reason given"
        seen = f"{failed} of {len(texts)} requests failed: {reasons}"
        return _Finding(Verdict.FAIL, "behaviour-errors", seen, "the cause is in its log: specctl logs")
    return None


def _the_burst(threshold: int, run: Run) -> _Finding | None:
    """Whether it went off, on graphs, with the same texts."""
    off = [s for s in run.samples if s.get("state") == "off"]
    peak = _peak(run)
    if not off and _grown(run, "off_steps") <= 0:
        seen = f"never off; the largest batch seen was {peak}, {len(run.burst)} requests were sent"
        if peak > threshold:
            return _Finding(Verdict.FAIL, "behaviour-stayed-on", seen, LOGS)
        hint = "the requests did not overlap: exercise it again, or with your own load"
        return _Finding(Verdict.UNKNOWN, "behaviour-burst-too-small", seen, hint)
    if _has_graphs(run) and not all(s.get("decode_graphs") is True for s in off or run.samples):
        hint = "decode without graphs is slow: look for capture errors at its start, specctl logs"
        return _Finding(Verdict.FAIL, "behaviour-no-graphs", "decode is not on CUDA graphs while off", hint)
    texts = compare(run.info or {}, run.alone, run.burst, run.which)
    if not texts.good:
        hint = "do not serve with this; compare with a server without the threshold"
        seen = f"{texts.words}; {texts.first_difference}"
        return _Finding(Verdict.FAIL, "behaviour-text-differs", seen, hint)
    return None


def _the_calm(threshold: int, run: Run) -> _Finding:
    """Whether it came on again; all else was right."""
    graphs = "on CUDA graphs" if _has_graphs(run) else "without CUDA graphs, as this server runs"
    texts = compare(run.info or {}, run.alone, run.burst, run.which).words
    said = f"{_grown(run, 'off_steps')} steps off at batches up to {_peak(run)}, {graphs}, {texts}"
    if threshold == 0:
        return _Finding(Verdict.PASS, "behaviour-always-off", f"always off, as asked: {said}")
    first, last = run.samples[0], run.samples[-1]
    if any(first.get(name) != last.get(name) for name in ("threshold", "resume")):
        seen = f"threshold {first.get('threshold')} before the load, {last.get('threshold')} after it"
        hint = "somebody changed it meanwhile: specctl history; then exercise it again"
        return _Finding(Verdict.UNKNOWN, "behaviour-threshold-changed", seen, hint)
    if last.get("state") != "on":
        batch = _int(last, "batch")
        seen = f"still off after the burst, with {batch} requests running"
        if batch > _int(last, "resume"):
            hint = "other traffic keeps it off: exercise it in a quiet hour"
            return _Finding(Verdict.UNKNOWN, "behaviour-busy", seen, hint)
        return _Finding(Verdict.FAIL, "behaviour-stayed-off", seen, LOGS)
    return _Finding(
        Verdict.PASS, "behaviour-switches", f"{_grown(run, 'switches')} switches: {said}, on again"
    )


def _has_graphs(run: Run) -> bool:
    info = run.info or {}
    return info.get("disable_cuda_graph") is not True and info.get("device") != "cpu"


def _live_threshold(info: Mapping[str, Any]) -> int | None:
    state = info.get("state")
    value = state.get("threshold") if isinstance(state, dict) else None
    return value if isinstance(value, int) else None


def _peak(run: Run) -> int:
    return max((_int(s, "batch") for s in run.samples), default=0)


def _grown(run: Run, name: str) -> int:
    return _int(run.samples[-1], name) - _int(run.samples[0], name)


def _int(sample: Mapping[str, Any], name: str) -> int:
    value = sample.get(name)
    return value if isinstance(value, int) else 0
