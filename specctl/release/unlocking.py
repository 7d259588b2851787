"""Take a lock away, and write down who did it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from specctl.config.model import HostConfig
from specctl.host.protocol import Host
from specctl.release.clock import new_run_id, stamp
from specctl.release.engine import Ports
from specctl.release.layout import Layout
from specctl.release.lock import HostLock, held_error, is_stale
from specctl.release.remote import Remote
from specctl.release.state import LockInfo


@dataclass(frozen=True)
class Unlocked:
    """What became of one host's lock."""

    host: str
    holder: LockInfo | None  # None: nobody held it

    @property
    def text(self) -> str:
        return f"removed; it was held by {self.holder.describe()}" if self.holder else "was not locked"

    def as_dict(self) -> dict[str, Any]:
        return {"host": self.host, "holder": asdict(self.holder) if self.holder else None}


def unlock_host(host: Host, config: HostConfig, ports: Ports, *, force: bool) -> Unlocked:
    """Remove the lock.

    Raises:
        LockHeld: it is held by somebody who may be alive, and `force` is not set.
    """
    remote = Remote(host, config.root, new_run_id(ports.clock), config.sudo)
    at = stamp(ports.clock)
    lock = HostLock(remote, ports.operator, "unlock", at)
    holder = lock.look()
    if holder is None:
        return Unlocked(config.name, None)
    if not force and not is_stale(holder, ports.operator):
        raise held_error(config.name, holder)
    lock.break_it(holder)
    entry = {
        "at": at,
        "run": remote.run,
        "command": "unlock",
        "by": ports.operator.name,
        "result": "done",
        "detail": f"was held by {holder.describe()}",
    }
    journal = Layout(config.root).journal("")
    remote.program("journal", journal=journal, records=[{"event": "unlock", **entry}], entry=entry)
    return Unlocked(config.name, holder)
