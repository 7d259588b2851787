"""Runs on the host: how many lines journald takes from a unit, and whether a unit wrote more than that."""

from __future__ import annotations

import glob
import os
import re
from collections import deque

LIMITS = re.compile(r"^\s*(RateLimitBurst|RateLimitIntervalSec)\s*=\s*(\d+)\s*([a-z]*)", re.MULTILINE)


def rate_limit(unit: str, user: bool, run: str, etc: str) -> tuple[float, int]:
    """(seconds, lines): how many lines within how long journald takes from a unit before it drops some.

    journald announces what it dropped only with the unit's next line, so a unit that falls silent after a
    burst has lost lines that nothing counts. A unit's own limit is in `run`, but only when its interval is
    not 0 (systemd 252 does not pass a 0 on), and never for units of a user manager.
    """
    try:
        interval = int(os.readlink(f"{run}/log-rate-limit-interval:{unit}")) / 1e6
        burst = int(os.readlink(f"{run}/log-rate-limit-burst:{unit}"))
        if not user:
            return interval, burst
    except (OSError, ValueError):
        pass
    seconds, lines = 30.0, 10000  # journald's defaults; its real limit is higher on a disk with room
    for path in (f"{etc}/journald.conf", *sorted(glob.glob(f"{etc}/journald.conf.d/*.conf"))):
        try:
            with open(path, encoding="utf-8", errors="replace") as handle:
                text = handle.read()
        except OSError:
            continue
        for name, value, unit_of_time in LIMITS.findall(text):
            if name == "RateLimitBurst":
                lines = int(value)
            else:
                seconds = float(value) * {"min": 60, "m": 60, "h": 3600, "ms": 0.001}.get(unit_of_time, 1)
    return seconds, lines


class Crowd:
    """Whether more lines came within the limit's interval than journald takes."""

    def __init__(self, seconds: float, lines: int) -> None:
        self.seconds, self.lines = seconds, lines
        self.times: deque[float] = deque()
        self.seen = False

    def take(self, at: float | None) -> None:
        if self.seen or at is None or not self.seconds or not self.lines:
            return
        self.times.append(at)
        while at - self.times[0] > self.seconds:
            self.times.popleft()
        self.seen = len(self.times) >= self.lines
