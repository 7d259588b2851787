"""A plan: one list of actions for one host. `plan`, `diff`, `--dry-run`, `deploy` and `rollback` share it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from specctl.release.actions.base import Action


@dataclass(frozen=True)
class ServerChange:
    """What a plan changes for one server, in words, for people and for `diff`."""

    server: str
    why: tuple[str, ...]  # empty: nothing
    before: str | None  # release that `current` points to now
    after: str
    unit_before: str | None = None  # text of the unit as it was last good, for a diff
    unit_after: str = ""
    files: tuple[str, ...] = ()  # overlaid files that differ: "+ path", "- path" or "~ path"

    @property
    def changed(self) -> bool:
        return bool(self.why)


@dataclass(frozen=True)
class Plan:
    """Pure data. Without actions there is nothing to do, and nothing is done."""

    host: str
    command: str  # deploy | rollback
    release: str
    actions: tuple[Action, ...]
    servers: tuple[ServerChange, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)  # worth a sentence, no reason to stop

    @property
    def changes(self) -> bool:
        return bool(self.actions)

    def as_dict(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "command": self.command,
            "release": self.release,
            "changes": self.changes,
            "servers": [
                {
                    "server": s.server,
                    "before": s.before,
                    "after": s.after,
                    "why": list(s.why),
                    "files": list(s.files),
                }
                for s in self.servers
            ],
            "actions": [a.as_dict() for a in self.actions],
            "notes": list(self.notes),
        }

    @property
    def digest(self) -> str:
        """Two plans with the same digest do the same."""
        text = json.dumps([a.as_dict() for a in self.actions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
