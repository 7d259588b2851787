"""Which hosts of an inventory a command is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from specctl.config.model import HostConfig, Inventory
from specctl.config.problems import did_you_mean, shown
from specctl.config.ranges import RangeError, expand
from specctl.errors import UsageError


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
    found = inventory.hosts
    if hosts:
        names = _matching(hosts, [h.name for h in inventory.hosts], "host", inventory.groups)
        found = tuple(h for h in found if h.name in names)
    if groups:
        chosen = _matching(groups, list(inventory.groups), "group", [h.name for h in inventory.hosts])
        members = {name for group in chosen for name in inventory.groups[group]}
        found = tuple(h for h in found if h.name in members)
    if servers:
        known = {s.name for h in found for s in h.servers}
        wanted = _matching(servers, sorted(known), "server", ())
        narrowed = (replace(h, servers=tuple(s for s in h.servers if s.name in wanted)) for h in found)
        found = tuple(h for h in narrowed if h.servers)
    if not found:
        asked = ", ".join((*hosts, *groups)) or "nothing"
        raise UsageError(
            "no host is selected",
            code="nothing-selected",
            context={"inventory": str(inventory.path), "asked for": asked},
            hint="a host must match --hosts and --group when both are given; see `specctl hosts`",
        )
    return found[:limit] if limit is not None else found


def _matching(patterns: Iterable[str], names: Sequence[str], what: str, other: Iterable[str]) -> set[str]:
    """The names that any pattern means; a pattern, or one name of a range, that means none is refused."""
    found: set[str] = set()
    for pattern in patterns:
        try:
            wanted = expand(pattern)
        except RangeError as exc:
            text = f"{shown(pattern)} names no {what}: {exc}"
            raise UsageError(text, code="bad-pattern", hint=exc.hint) from exc
        for one in wanted:
            matches = {n for n in names if n == one or (("*" in one or "?" in one) and fnmatchcase(n, one))}
            if not matches:
                hint = did_you_mean(one, names)
                if one in other:
                    hint = f"{one} is a {'group' if what == 'host' else 'host'}: use {_OPTION[what]} {one}"
                raise UsageError(f"there is no {what} {shown(one)}", code=f"unknown-{what}", hint=hint)
            found |= matches
    return found


_OPTION = {"host": "--group", "group": "--hosts"}  # where a name that is the other thing belongs
