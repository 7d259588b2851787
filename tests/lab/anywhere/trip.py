"""Where in a run a fault strikes; travels from the test to the operator's process in its environment."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

VARIABLE = "SPECCTL_LAB_TRIP"
BEFORE, DURING, AFTER, UNDO = "before", "during", "after", "undo"


@dataclass(frozen=True)
class Trip:
    """One place, and what the operator's process does when it gets there."""

    kind: str = ""  # of the action; "" strikes nowhere
    nth: int = 1  # of the actions of that kind in the plan
    phase: str = BEFORE  # before | during | after (of apply and verify) | undo (during it)
    call: int = 1  # during and undo: at which call to the host
    moment: str = "before"  # of that call: before | flight | after
    delay_s: float = 0.0  # flight: how long after the call began
    die: str = ""  # a signal for the operator itself, e.g. SIGKILL; else the test is told, and waited for
    said: int = -1  # file descriptor to the test
    heard: int = -1  # file descriptor from the test
    haste: float = 1.0  # by what the operator's promises to the host are multiplied

    def to_env(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_env(cls, text: str) -> Trip:
        return cls(**json.loads(text))

    @property
    def where(self) -> str:
        inside = f" call {self.call} {self.moment}" if self.phase in (DURING, UNDO) else ""
        return f"{self.kind} {self.phase}{inside}"
