"""Which hosts of an inventory a command is about."""

from __future__ import annotations

from collections.abc import Sequence

from specctl.config.model import HostConfig, Inventory


def select(
    inventory: Inventory,
    hosts: Sequence[str] = (),
    groups: Sequence[str] = (),
    limit: int | None = None,
    servers: Sequence[str] = (),
) -> tuple[HostConfig, ...]:
    """The hosts that match, in the inventory's order.

    `hosts` and `groups` take names, ranges (`gpu-[01:04]`) and globs (`gpu-*`). Within one of them any match
    counts; given both, a host must match both. `servers` keeps only the servers of these names, and drops
    hosts without any. `limit` keeps the first N hosts.

    Raises:
        UsageError: a name that nothing matches (with the nearest one), or an empty result.
    """
    raise NotImplementedError
