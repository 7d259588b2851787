"""Which settings a host ends up with: defaults, then groups, then its own. Maps merge, all else replaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specctl.config.problems import Problems, Where, did_you_mean, shown
from specctl.config.ranges import MAX_NAMES, RangeError, expand
from specctl.config.reader import DROP, INVALID, Located

MAX_HOSTS = MAX_NAMES
_MAX_MEMBERS = 20 * MAX_HOSTS  # of all groups together
_MAX_GROUPS = 1000
_MAX_NESTING = 16
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


@dataclass(frozen=True)
class GroupEntry:
    """One group: hosts of its own, groups inside it, settings."""

    name: str
    settings: Located
    hosts: tuple[str, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Groups:
    """All groups in the order in which their settings apply: a group comes before the groups inside it."""

    entries: tuple[GroupEntry, ...]
    members: dict[str, frozenset[str]]  # group -> hosts, also those of the groups inside it


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


def group_entries(groups: Located | None, hosts: Iterable[str], problems: Problems) -> list[GroupEntry]:
    """The groups of one file; a member that is no host of the inventory is refused."""
    known = frozenset(hosts)
    total = 0
    found: list[GroupEntry] = []
    for name, settings in _items(groups):
        if len(found) >= _MAX_GROUPS:
            problems.add("too-large", settings.where, f"more than {_MAX_GROUPS:,} groups", "use fewer groups")
            break
        members: list[str] = []
        for member in _texts(settings.get("hosts")):
            try:
                names = expand(str(member.value))
            except RangeError as exc:  # the reader lets no such range through
                problems.add("value", member.where, str(exc), exc.hint)
                continue
            total += len(names)
            if total > _MAX_MEMBERS:
                problems.add(
                    "too-large", member.where, "the groups have too many members", "use groups of groups"
                )
                return found
            unknown = [n for n in names if n not in known]
            if unknown:
                text = f"{shown(unknown[0])} is no host of this inventory"
                is_group = groups is not None and groups.get(unknown[0]) is not None
                hint = (
                    "it is a group: name it under `groups:`" if is_group else did_you_mean(unknown[0], known)
                )
                problems.add("unknown-host", member.where, text, hint)
            members.extend(n for n in names if n in known)
        children = tuple(str(child.value) for child in _texts(settings.get("groups")))
        found.append(GroupEntry(name, settings, tuple(members), children))
    return found


def arrange(entries: Iterable[GroupEntry], problems: Problems) -> Groups:
    """Resolve groups of groups.

    A group named twice, an unknown group and a cycle are refused; the cycle is shown.
    """
    by_name: dict[str, GroupEntry] = {}
    for entry in entries:
        first = by_name.setdefault(entry.name, entry)
        if first is not entry:
            where = entry.settings.where
            text = f"group {shown(entry.name)} is defined twice: also at {first.settings.where}"
            problems.add("duplicate-group", where, text, "define it in one place")
    for entry in by_name.values():
        for child in _texts(entry.settings.get("groups")):
            if child.value not in by_name:
                text = f"there is no group {shown(str(child.value))}"
                problems.add("unknown-group", child.where, text, did_you_mean(str(child.value), by_name))
    finished: list[GroupEntry] = []
    members: dict[str, frozenset[str]] = {}

    def visit(name: str, above: tuple[str, ...]) -> frozenset[str]:
        if name in members:
            return members[name]
        entry = by_name[name]
        if name in above:
            cycle = " -> ".join((*above[above.index(name) :], name))
            problems.add(
                "group-cycle",
                entry.settings.where,
                f"groups contain each other: {cycle}",
                "take one of them out",
            )
            return frozenset()
        if len(above) >= _MAX_NESTING:
            problems.add("too-deep", entry.settings.where, "groups are nested too deep", "use fewer levels")
            return frozenset()
        inside = [visit(child, (*above, name)) for child in reversed(entry.groups) if child in by_name]
        members.setdefault(name, frozenset(entry.hosts).union(*inside))
        finished.append(entry)
        return members[name]

    # Backwards and then reversed: containing groups come first, else the order of the file is kept.
    for name in reversed(by_name):
        visit(name, ())
    return Groups(tuple(reversed(finished)), members)


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


def _items(table: Located | None) -> Iterable[tuple[str, Located]]:
    """The entries of a named map, without those that could not be read."""
    if table is None or not isinstance(table.value, dict):
        return ()
    return [(key, value) for key, value in table.value.items() if value.value is not INVALID]


def _texts(items: Located | None) -> list[Located]:
    if items is None or not isinstance(items.value, tuple):
        return []
    return [item for item in items.value if isinstance(item, Located) and isinstance(item.value, str)]
