"""The host's lock around whatever changes a server here, and what an interrupted run has left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from specctl.config.model import HostConfig
from specctl.errors import SpecctlError
from specctl.host.protocol import Host
from specctl.release.clock import Clock, Operator, new_run_id, stamp
from specctl.release.lock import HostLock
from specctl.release.remote import Remote
from specctl.release.state import HostState
from specctl.tune.errors import TuneError
from specctl.tune.signals import undisturbed

WAITING = ("armed", "firing")


@contextmanager
def locked(
    host: Host,
    config: HostConfig,
    what: str,
    lease_s: float,
    *,
    operator: Operator,
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[HostLock]:
    """The lock of one host for one run.

    Args:
        what: the run in words, for others who meet the lock.
        lease_s: until when it is heard from first, in seconds.

    Raises:
        LockHeld: another run is at work on the host.
        TuneError: the host is about to undo what a lost run has left.
    """
    remote = Remote(host, config.root, new_run_id(clock), config.sudo)
    lock = HostLock(remote, operator, what, stamp(clock))
    broke = lock.acquire(what.split()[0], lease_s)
    try:
        if broke is not None:
            say(f"the lock of {broke.describe()} was stale and was taken over")
        undo = HostState.from_json(remote.program("state", units={})).deadman
        if undo is not None and undo.state in WAITING:
            raise TuneError(
                f"{config.name} is about to put back what an interrupted run has left",
                code="undo-to-come",
                context={"host": config.name, "run": undo.run},
                hint="give it a minute, look at specctl status and history, then try again",
            )
        yield lock
    finally:
        with undisturbed(), suppress(SpecctlError):  # a lost host: the lock is stale by its own promise
            lock.release()
