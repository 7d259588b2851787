"""What a server does from look to look: rates, changes, and what is wrong with it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specctl.tune.live import Look

WINDOW_S = 60.0  # over which switches a minute are counted
FLAPS = 12.0  # switches a minute: one every 5 s, each may cost a rebuild of the draft's cache
MIN_STEPS = 50  # on-steps before the accepted length says anything
USELESS = 1.2  # tokens a speculative step; 1.0 means that no drafted token was ever right


@dataclass(frozen=True)
class Moment:
    """What one server does now. Numbers are None where it does not say them."""

    host: str
    server: str
    state: str  # on | off | mixed | no switch | down
    detail: str = ""  # why it is down
    batch: int | None = None  # requests in the newest decode batch
    threshold: int | None = None
    resume: int | None = None
    dwell: int | None = None
    switches: int | None = None  # since the server started
    per_minute: float | None = None  # switches in the last minute; None until two looks
    accept_length: float | None = None  # over on-steps, tokens
    tokens_per_s: float | None = None  # as the server last logged it
    graphs: bool | None = None  # CUDA graphs of the off path
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """What makes a new line in a pipe; numbers that always move are left out."""
        return (self.state, self.detail, self.threshold, self.resume, self.dwell, self.graphs, self.warnings)

    @property
    def line(self) -> str:
        """One line for a pipe or a log."""
        parts = [f"{self.host} {self.server}: {self.state}"]
        if self.detail:
            parts.append(self.detail)
        if self.threshold is not None:
            parts.append(f"batch {self.batch}, threshold {self.threshold}/{self.resume}, dwell {self.dwell}")
            parts.append(f"switches {self.switches}")
        if self.accept_length is not None:
            parts.append(f"accepted {self.accept_length:.2f}")
        if self.tokens_per_s is not None:
            parts.append(f"{self.tokens_per_s:.0f} tokens/s")
        return "; ".join([*parts, *(f"WARNING {w}" for w in self.warnings)])


@dataclass
class Watched:
    """One server over time; `see` turns each look into a moment."""

    host: str
    server: str
    _past: deque[tuple[float, int]] = field(default_factory=deque)  # host time, switches

    def see(self, look: Look) -> Moment:
        """The moment of this look. Looks must come in order of time."""
        if look.error:
            self._past.clear()  # it may have restarted: its counters begin again
            return Moment(self.host, self.server, "down", look.error)
        states = look.states
        if not states:
            return Moment(self.host, self.server, "no switch", tokens_per_s=look.tokens_per_s)
        words = {str(s.get("state")) for s in states}
        switches = sum(_int(s, "switches") or 0 for s in states)
        per_minute = self._rate(look.at, switches)
        first = states[0]
        accept = [a for a in (_float(s, "accept_length_on") for s in states) if a is not None]
        graphs = [s.get("decode_graphs") for s in states]
        return Moment(
            self.host,
            self.server,
            words.pop() if len(words) == 1 else "mixed",
            batch=sum(_int(s, "batch") or 0 for s in states),
            threshold=_int(first, "threshold"),
            resume=_int(first, "resume"),
            dwell=_int(first, "resume_steps"),
            switches=switches,
            per_minute=per_minute,
            accept_length=sum(accept) / len(accept) if accept else None,
            tokens_per_s=look.tokens_per_s,
            graphs=all(g is True for g in graphs) if all(isinstance(g, bool) for g in graphs) else None,
            warnings=tuple(warnings_of(look, per_minute)),
        )

    def _rate(self, at: float, switches: int) -> float | None:
        if self._past and switches < self._past[-1][1]:
            self._past.clear()
        self._past.append((at, switches))
        while len(self._past) > 2 and at - self._past[0][0] > WINDOW_S:
            self._past.popleft()
        first_at, first = self._past[0]
        if at <= first_at:
            return None
        # Over a window shorter than a minute one switch is no rate yet.
        return (switches - first) * 60.0 / max(at - first_at, WINDOW_S)


def warnings_of(look: Look, per_minute: float | None) -> list[str]:
    """What an operator should do something about, each with what to do."""
    found = []
    state = look.state or {}
    threshold, limit = _int(state, "threshold"), look.limit
    if per_minute is not None and per_minute >= FLAPS:
        found.append(
            f"flapping, {per_minute:.0f} switches a minute: lower resume or raise the dwell"
            " (specctl threshold set)"
        )
    if look.device == "cuda" and look.graphs is True and state.get("decode_graphs") is False:
        found.append("no CUDA graphs while off: plain decoding is slow; look for the reason in specctl logs")
    accept, steps = _float(state, "accept_length_on"), _int(state, "on_steps") or 0
    if accept is not None and accept < USELESS and steps >= MIN_STEPS and threshold != 0:
        found.append(
            f"the draft is useless, {accept:.2f} tokens a step: threshold 0 is faster, or take another draft"
        )
    if threshold is not None and limit is not None and threshold >= limit:
        found.append(
            f"the threshold is dead: {limit} requests run at most, {threshold} is never exceeded; lower it"
        )
    if look.states and not look.same_everywhere:
        found.append("groups of ranks have different thresholds: set them again (specctl threshold set)")
    return found


def _int(state: Mapping[str, Any], name: str) -> int | None:
    value = state.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float(state: Mapping[str, Any], name: str) -> float | None:
    value = state.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
