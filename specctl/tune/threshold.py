"""The thresholds of one server from every side: the inventory, the running process, the next start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specctl.config.model import HostConfig, ServerConfig
from specctl.host.protocol import Host
from specctl.service.protocol import Service
from specctl.tune.kept import kept, last_change
from specctl.tune.live import Look, look
from specctl.tune.values import Values


@dataclass(frozen=True)
class Threshold:
    """What holds where. `notes` say where they differ, and what that means."""

    host: str
    server: str
    inventory: Values | None
    live: Values | None
    after_restart: Values | None
    state: str | None  # on | off
    error: str | None  # why there is no live value
    changed: str | None  # when and by whom a live change was last made
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        def plain(values: Values | None) -> dict[str, int | None] | None:
            return values.as_dict() if values else None

        return {
            "host": self.host,
            "server": self.server,
            "inventory": plain(self.inventory),
            "live": plain(self.live),
            "after_restart": plain(self.after_restart),
            "state": self.state,
            "error": self.error,
            "changed": self.changed,
            "notes": list(self.notes),
        }


def inventory_values(server: ServerConfig) -> Values | None:
    """What the inventory says."""
    policy = server.threshold
    return Values(policy.disable, policy.resume, policy.resume_steps) if policy else None


def read_threshold(host: Host, config: HostConfig, server: ServerConfig, service: Service) -> Threshold:
    """Look at all of it; nothing is changed."""
    seen = look(host, config, server)
    found = kept(host, config, server, service)
    entry = last_change(host, config, server)
    said = f"{entry.at} by {entry.by}: {entry.detail}" if entry else None
    wanted = inventory_values(server)
    return Threshold(
        config.name,
        server.name,
        wanted,
        seen.values,
        found.values,
        str(seen.state.get("state")) if seen.state else None,
        seen.error or (None if seen.values else "started without a threshold"),
        said,
        tuple(differences(wanted, seen, found.values)),
    )


def differences(wanted: Values | None, seen: Look, after: Values | None) -> list[str]:
    """Sentences about what does not agree."""
    notes = []
    live = seen.values
    if live and not seen.same_everywhere:
        notes.append("its groups of ranks do not have the same values: set them again")
    if live and (after is None or not after.agrees(live)):
        notes.append(f"a restart would bring {after or 'no threshold'}, not what is live now")
    if live and (wanted is None or not wanted.agrees(live)):
        notes.append(f"the inventory says {wanted or 'no threshold'}: the next deploy puts that there")
    if live and live.threshold == 0:
        notes.append("threshold 0: speculation is switched off altogether")
    return notes
