"""Groups of hosts and of groups: who belongs to them, and in which order their settings apply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specctl.config.problems import Problems, did_you_mean, shown
from specctl.config.ranges import MAX_NAMES, RangeError, expand
from specctl.config.reader import INVALID, Located

MAX_GROUPS = 1000
MAX_NESTING = 16
MAX_MEMBERS = 20 * MAX_NAMES  # of all groups together


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


def group_entries(groups: Located | None, hosts: Iterable[str], problems: Problems) -> list[GroupEntry]:
    """The groups of one file; a member that is no host of the inventory is refused."""
    known = frozenset(hosts)
    total = 0
    found: list[GroupEntry] = []
    for name, settings in _items(groups):
        if len(found) >= MAX_GROUPS:
            problems.add("too-large", settings.where, f"more than {MAX_GROUPS:,} groups", "use fewer groups")
            break
        members: list[str] = []
        for member in _texts(settings.get("hosts")):
            try:
                names = expand(str(member.value))
            except RangeError as exc:  # the reader lets no such range through
                problems.add("value", member.where, str(exc), exc.hint)
                continue
            total += len(names)
            if total > MAX_MEMBERS:
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
    order = _Order(by_name, problems)
    # Backwards and then reversed: containing groups come first, else the order of the file is kept.
    for name in reversed(by_name):
        order.visit(name, ())
    return Groups(tuple(reversed(order.finished)), order.members)


class _Order:
    """Visits groups depth first: a group is finished after the groups inside it."""

    def __init__(self, groups: dict[str, GroupEntry], problems: Problems) -> None:
        self._groups = groups
        self._problems = problems
        self._levels: dict[str, int] = {}
        self.finished: list[GroupEntry] = []
        self.members: dict[str, frozenset[str]] = {}

    def visit(self, name: str, above: tuple[str, ...]) -> None:
        where = self._groups[name].settings.where
        if name in above:
            cycle = " -> ".join((*above[above.index(name) :], name))
            text = f"groups contain each other: {cycle}"
            self._problems.add("group-cycle", where, text, "take one of them out")
        elif name not in self.members and len(above) <= MAX_NESTING:
            self._finish(name, above)
        # Counted from both ends: which group is visited first must not decide what is refused.
        if len(above) > MAX_NESTING or self._levels.get(name, 0) == MAX_NESTING + 1:
            text = f"groups are nested more than {MAX_NESTING} deep"
            self._problems.add("too-deep", where, text, "use fewer levels")

    def _finish(self, name: str, above: tuple[str, ...]) -> None:
        entry = self._groups[name]
        inside = [child for child in reversed(entry.groups) if child in self._groups]
        for child in inside:
            self.visit(child, (*above, name))
        known = [self.members[child] for child in inside if child in self.members]
        self._levels[name] = 1 + max((self._levels.get(child, 0) for child in inside), default=0)
        self.members[name] = frozenset(entry.hosts).union(*known)
        self.finished.append(entry)


def _items(table: Located | None) -> Iterable[tuple[str, Located]]:
    """The entries of a named map, without those that could not be read."""
    if table is None or not isinstance(table.value, dict):
        return ()
    return [(key, value) for key, value in table.value.items() if value.value is not INVALID]


def _texts(items: Located | None) -> list[Located]:
    if items is None or not isinstance(items.value, tuple):
        return []
    return [item for item in items.value if isinstance(item, Located) and isinstance(item.value, str)]
