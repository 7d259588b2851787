"""Which releases may go. Pure: the host refuses on its own to remove what a `current` points to."""

from __future__ import annotations

from collections.abc import Iterable

from specctl.release.state import HostState, ReleaseState


def prunable(state: HostState, keep: int, also_keep: Iterable[str] = ()) -> tuple[str, ...]:
    """Release ids to remove, oldest first.

    Kept are: what any server points to, the good state of every server and the one before it, the newest
    `keep` releases that are complete and not failed, the newest failed one (to be looked at), and
    `also_keep`. So failed releases fill no slot, and pruning for one server cannot take another's way back.
    """
    kept = set(also_keep)
    for server in state.servers.values():
        if server.current:
            kept.add(server.current)
        kept.update(good.release for good in (server.good, server.before) if good is not None)
    if state.pending is not None:
        kept.add(state.pending.release)
    usable = [r for r in _by_age(state) if r.complete and r.failed is None]
    kept.update(r.id for r in usable[-keep:] if keep > 0)
    failed = [r for r in _by_age(state) if r.failed is not None]
    kept.update(r.id for r in failed[-1:])
    return tuple(r.id for r in _by_age(state) if r.id not in kept)


def _by_age(state: HostState) -> list[ReleaseState]:
    """Oldest first, by what the release itself has written down; incomplete ones count as the oldest."""
    return sorted(state.releases.values(), key=lambda r: (r.completed_at, r.id))
