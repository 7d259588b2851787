"""Which settings a host ends up with: defaults, then groups, then its own. Maps merge, all else replaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specctl.config.groups import GroupEntry, Groups
from specctl.config.problems import Problems, Where, shown
from specctl.config.ranges import MAX_NAMES, expand
from specctl.config.reader import DROP, Located

MAX_HOSTS = MAX_NAMES
_MAX_VALUES = 1_000_000  # of all hosts together, with ranges and inheritance written out


@dataclass(frozen=True)
class HostEntry:
    """One host before inheritance. `index` and `count`: its place in the range that named it."""

    name: str
    settings: Located
    defaults: Located | None
    index: int = 0
    count: int = 1

    @property
    def where(self) -> Where:
        return self.settings.where


def merge(base: Located | None, over: Located) -> Located:
    """`over` laid on `base`: maps by key, an explicit null drops a key, everything else replaces."""
    if not isinstance(over.value, dict):
        return over
    merged: dict[str, Located] = dict(base.value) if base and isinstance(base.value, dict) else {}
    for key, value in over.value.items():
        if value.value is DROP:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return Located(merged, over.where)


def host_entries(hosts: Located | None, defaults: Located | None, problems: Problems) -> list[HostEntry]:
    """The hosts of one file, ranges written out; names that two entries share are refused by `unique`."""
    found: list[HostEntry] = []
    named = hosts.value if hosts is not None and isinstance(hosts.value, dict) else {}
    for written, settings in named.items():
        names = expand(written)
        if len(found) + len(names) > MAX_HOSTS:
            problems.add(
                "too-large",
                settings.where,
                f"more than {MAX_HOSTS:,} hosts",
                "split the fleet into inventories",
            )
            break
        found.extend(HostEntry(name, settings, defaults, i, len(names)) for i, name in enumerate(names))
    return found


def unique(entries: Iterable[HostEntry], problems: Problems) -> dict[str, HostEntry]:
    """Hosts by name, in order."""
    found: dict[str, HostEntry] = {}
    for entry in entries:
        first = found.setdefault(entry.name, entry)
        if first is not entry:
            problems.add(
                "duplicate-host",
                entry.where,
                f"host {shown(entry.name)} is named twice: also at {first.where}",
                "take it out of one of the two, or make one range smaller",
            )
    return found


class Inheritance:
    """Settings of hosts. Hosts of the same file and groups share the work; the whole of it is bounded."""

    def __init__(self, groups: Groups, problems: Problems) -> None:
        self._groups = groups
        self._problems = problems
        self._shared: dict[tuple[int, tuple[str, ...]], Located | None] = {}
        self._sizes: dict[int, int] = {}
        self._left = _MAX_VALUES

    def groups_of(self, host: str) -> tuple[GroupEntry, ...]:
        return tuple(g for g in self._groups.entries if host in self._groups.members[g.name])

    def settings(self, entry: HostEntry) -> Located | None:
        """Everything the host has, its own settings on top; None when the inventory has become too large."""
        groups = self.groups_of(entry.name)
        layers = [*([entry.defaults] if entry.defaults else ()), *(g.settings for g in groups)]
        if not self._afford(entry, (*layers, entry.settings)):
            return None
        key = (id(entry.defaults), tuple(g.name for g in groups))
        if key not in self._shared:
            base: Located | None = None
            for layer in layers:
                base = merge(base, layer)
            self._shared[key] = base
        return merge(self._shared[key], entry.settings)

    def servers(self, entry: HostEntry, settings: Located) -> list[Located]:
        """The servers of a host, each laid on the host's `server:`."""
        found = settings.get("servers")
        if found is None or not isinstance(found.value, tuple):
            return []
        shared = settings.get("server")
        if shared is not None and not self._afford(entry, (shared,) * len(found.value)):
            return []
        return [merge(shared, server) for server in found.value]

    def _afford(self, entry: HostEntry, layers: tuple[Located, ...]) -> bool:
        self._left -= sum(self._size(layer) for layer in layers)
        if self._left < 0:
            self._problems.add(
                "too-large",
                entry.where,
                "the ranges and groups come to too much",
                "split it into inventories",
            )
        return self._left >= 0

    def _size(self, located: Located) -> int:
        if id(located) not in self._sizes:
            inner: Iterable[object] = ()
            if isinstance(located.value, dict):
                inner = located.value.values()
            elif isinstance(located.value, tuple):
                inner = located.value
            self._sizes[id(located)] = 1 + sum(self._size(i) if isinstance(i, Located) else 1 for i in inner)
        return self._sizes[id(located)]
