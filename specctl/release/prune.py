"""Which releases may go. Pure: the host refuses on its own to remove what a `current` points to."""

from __future__ import annotations

from collections.abc import Iterable

from specctl.release.state import HostState, ReleaseState


def prunable(state: HostState, keep: int, new: str | None = None) -> tuple[str, ...]:
    """Release ids to remove, oldest first.

    Kept are: what any server points to, the good state of every server and the one before it, the newest
    `keep` releases that are complete and not failed (`new`, which is about to be one, is the newest of them),
    the newest failed one (to be looked at), and that of an unfinished run. So failed releases fill no slot,
    and pruning for one server cannot take another's way back.
    """
    kept = {new} if new else set()
    for server in state.servers.values():
        if server.current:
            kept.add(server.current)
        kept.update(good.release for good in (server.good, server.before) if good is not None)
    if state.pending is not None:
        kept.add(state.pending.release)
    ages = _by_age(state)
    usable = [r.id for r in ages if r.complete and r.failed is None and r.id != new] + ([new] if new else [])
    kept.update(usable[-keep:] if keep > 0 else ())
    kept.update([r.id for r in ages if r.failed is not None and r.id != new][-1:])
    return tuple(r.id for r in ages if r.id not in kept)


def useless(state: HostState, releases: Iterable[str]) -> tuple[str, ...]:
    """Those of `releases` that nobody could use anyway: failed, or never complete."""
    return tuple(
        r for r in releases if state.releases[r].failed is not None or not state.releases[r].complete
    )


def _by_age(state: HostState) -> list[ReleaseState]:
    """Oldest first, by what the release itself has written down; incomplete ones count as the oldest."""
    return sorted(state.releases.values(), key=lambda r: (r.completed_at, r.id))
