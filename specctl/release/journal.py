"""The journal of a release: what a run was about to do, written before it did it, and how that ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specctl.release.clock import Clock, Operator, stamp
from specctl.release.remote import Remote


@dataclass
class Journal:
    """Writes one run into `<release>/journal.jsonl` on the host.

    The end of an action travels with the start of the next one, so that a run of n actions costs n + 1 trips.
    Nothing secret is ever in a record: actions hold none.
    """

    remote: Remote
    path: str
    clock: Clock
    _waiting: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, command: str, release: str, operator: Operator, plan: Mapping[str, Any]) -> None:
        """Write the plan, and the pointer by which the next specctl finds this run if it gets no end."""
        pending = {
            "run": self.remote.run,
            "command": command,
            "release": release,
            "by": operator.name,
            "started_at": stamp(self.clock),
            "journal": self.path,
        }
        record = self._record("begin", command=command, release=release, by=operator.name, plan=plan)
        self._send(record, pending=pending)

    def start(self, action: str, server: str | None, lease: Mapping[str, object] | None = None) -> Any:
        """Say what happens next, before it happens; the answer is that to the lease that went along."""
        return self._send(self._record("start", action=action, server=server), lease=lease)

    def end(self, action: str, server: str | None, outcome: str, detail: str = "") -> None:
        """Note how it ended; sent with the next record."""
        self._waiting.append(
            self._record("end", action=action, server=server, outcome=outcome, detail=detail)
        )

    def finish(self, result: str, entry: Mapping[str, Any]) -> None:
        """The run's end, the line in the host's history, and the pointer is taken away."""
        self._send(self._record("finish", result=result), entry=dict(entry), finished=self.remote.run)

    def _record(self, event: str, **more: object) -> dict[str, Any]:
        return {"event": event, "run": self.remote.run, "at": stamp(self.clock), **more}

    def _send(self, record: dict[str, Any], **more: Any) -> Any:
        records = [*self._waiting, record]
        answer = self.remote.program("journal", journal=self.path, records=records, **more)
        self._waiting.clear()  # only now: a lost link must not lose them
        return answer


def parse(data: bytes) -> list[dict[str, Any]]:
    """The records of a journal or history; lines that were cut or are no JSON object are left out."""
    records = []
    for line in data.splitlines():
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            records.append(value)
    return records
