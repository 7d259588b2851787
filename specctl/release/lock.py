"""The host's lock: one run at a time, with a name on it, and a promise when its holder is heard from next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specctl.host.shape import misfit, shaped
from specctl.release.clock import Operator
from specctl.release.errors import LockDenied, LockHeld, LockLost, UndoneByHost
from specctl.release.remote import Remote
from specctl.release.state import LockInfo

MARGIN_S = 60.0  # added to what a step may take, before its silence counts


@dataclass
class HostLock:
    """The lock of one host for one run.

    A held lock is broken without asking only when its holder is overdue and nothing of its run is alive:
    no process on the host, and none on the operator's machine where that is this machine.
    """

    remote: Remote
    operator: Operator
    what: str
    since: str  # ISO 8601
    held: bool = False

    def acquire(self, step: str = "start", lease_s: float = MARGIN_S) -> LockInfo | None:
        """Take it; the stale holder whose lock was broken, or None.

        Raises:
            LockHeld: somebody else holds it (exit 5), with who, where, since when and for what.
            LockDenied: it cannot be made: permission, a full or a read-only disk.
        """
        holder = self.look()
        gone = [holder.run] if holder is not None and is_stale(holder, self.operator) else []
        answer = self._call("take", step=step, lease_s=lease_s, holder_gone=gone)
        if answer["taken"]:
            self.held = True
            return info_from(answer["broke"])
        if "denied" in answer:
            raise LockDenied(
                f"the lock on {self.remote.host.name} cannot be made: {answer['denied']}",
                context={"host": self.remote.host.name, "lock": f"{self.remote.root}/lock"},
                hint=hint_for(str(answer["denied"])),
            )
        raise held_error(self.remote.host.name, info_from(answer["held"]))

    def renew(self, step: str, lease_s: float) -> None:
        """Promise to be heard from within `lease_s` seconds.

        Raises:
            LockLost: the lock is no longer ours.
            UndoneByHost: it is, but the host has lost patience and put the old release back.
        """
        self.judge(self.remote.program("journal", lease=self.lease(step, lease_s)), step)

    def lease(self, step: str, seconds: float) -> dict[str, object]:
        """What a program on the host needs to renew the promise on its way."""
        return {"run": self.remote.run, "seconds": seconds, "step": step}

    def judge(self, answer: Mapping[str, Any], step: str) -> None:
        """What the host said to a renewal; raises as `renew` does."""
        if not answer["mine"]:
            self.held = False
            now = info_from(answer["held"])
            raise LockLost(
                f"the lock on {self.remote.host.name} was taken from this run",
                context={"host": self.remote.host.name, "held now by": now.describe() if now else "nobody"},
                hint="see specctl status and specctl history before you go on",
            )
        if answer["undone"]:
            raise UndoneByHost(
                f"{self.remote.host.name} undid the change itself: it had not heard from here for too long",
                context={"host": self.remote.host.name, "step": step},
                hint="the link to the host is slow or was lost; deploy again when it holds",
            )

    def release(self) -> None:
        """Give it back; nothing happens when it is not ours any more."""
        if self.held:
            self._call("release")
            self.held = False

    def look(self) -> LockInfo | None:
        """Who holds it now; reads only."""
        return info_from(self._call("look")["held"])

    def break_it(self, holder: LockInfo) -> None:
        """Remove it if that holder still has it."""
        self._call("break", holder=holder.run)

    def _call(self, op: str, **params: Any) -> Any:
        info = {
            "run": self.remote.run,
            "who": self.operator.who,
            "where": self.operator.where,
            "what": self.what,
            "since": self.since,
            "pid": self.operator.pid,
            "boot": self.operator.boot,
        }
        answer = self.remote.program("lock", op=op, info=info, **params)
        return shaped(self.remote.host.name, "lock", answer, lambda raw: dict(raw.items()))


def is_stale(info: LockInfo, operator: Operator) -> bool:
    """Overdue, no process of the run on the host, and not a living process of this machine."""
    return info.overdue_s > 0 and not info.processes and operator.gone(info.pid, info.boot) is not False


def info_from(raw: Mapping[str, Any] | None) -> LockInfo | None:
    if not raw:
        return None
    made = LockInfo(**{**raw, "processes": tuple(raw.get("processes", ()))})
    return None if misfit(made, LockInfo) else made


def held_error(host: str, info: LockInfo | None) -> LockHeld:
    """The error of a held lock; it says why the lock does not count as stale."""
    if info is None:
        return LockHeld(
            f"{host} was locked by another run at this moment", context={"host": host}, hint="try again"
        )
    if info.processes:
        why = f"processes of that run are alive on the host: {', '.join(map(str, info.processes))}"
    elif info.overdue_s <= 0:
        why = f"it promised to be heard from within {-info.overdue_s:.0f} s"
    else:
        why = f"it is overdue by {info.overdue_s:.0f} s, but its process {info.pid} is alive on this machine"
    return LockHeld(
        f"{host} is locked by {info.who} on {info.where}",
        context={
            "host": host,
            "held": info.age,
            "since": f"{info.since} by the clock of {info.where}",
            "for": info.what,
            "at": info.step or "?",
            "why it counts": why,
        },
        hint=f"wait for it, or if you know that it is dead: specctl unlock --hosts {host} --force",
    )


def hint_for(denied: str) -> str:
    """What to do where the lock cannot be made."""
    if "No space" in denied or "quota" in denied:
        return "make room on that file system: specctl prune removes old releases"
    if "Read-only" in denied:
        return "a disk error may have made it read-only: look at dmesg on the host before remounting"
    if "ermi" in denied:  # Permission denied, Operation not permitted
        return "give the ssh user write access to the root, or set `sudo: true` for this host"
    return "look at that path on the host, or choose another root"
