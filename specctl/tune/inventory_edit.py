"""A threshold written into an inventory file as a small edit of its text: comments, order and quotes stay.

Two places are tried: where the values stand now, and the server's own block. Each result is read back
with the loader. The one counts that gives the server what was asked for and changes the fewest other
servers; which those are is part of the answer.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from specctl.config.groups import arrange, group_entries
from specctl.config.inherit import Inheritance, host_entries, unique
from specctl.config.inventory import InventoryFile, parse_inventory
from specctl.config.model import HostConfig, Inventory, ServerConfig
from specctl.config.problems import InventoryError, Problems
from specctl.config.reader import Located, read
from specctl.config.resolve import PlacedServer, Resolver
from specctl.config.schema import INVENTORY
from specctl.config.source import read_source
from specctl.errors import UsageError
from specctl.tune.errors import TuneError
from specctl.tune.values import Values

KEYS = {
    "disable": "threshold",
    "resume": "resume",
    "resume_steps": "resume_steps",
}  # in the file -> of Values


@dataclass(frozen=True)
class Edit:
    """One file's new text. `also`: other servers, as host/server, that the edit changes too."""

    path: Path
    before: str
    after: str
    also: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        """Unified diff, for people."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            fromfile=str(self.path),
            tofile=str(self.path),
            n=2,
        )
        return "".join(lines)

    def write(self) -> None:
        """Write the file; its line ends are kept.

        Raises:
            TuneError: it was changed since it was read, or cannot be written.
        """
        try:
            if self.path.read_bytes() != self.before.encode():
                raise TuneError(
                    f"{self.path} was changed meanwhile, so it was left alone",
                    code="inventory-changed",
                    hint="run the command again",
                )
            self.path.write_bytes(self.after.encode())
        except OSError as exc:
            raise TuneError(f"{self.path} cannot be written: {exc.strerror}", code="inventory-write") from exc


def edit_threshold(
    files: Sequence[Path], host: str, server: str, values: Values, *, environ: Mapping[str, str]
) -> Edit | None:
    """The edit that gives a server these values; None when the inventory says them already.

    Args:
        files: all files of the inventory.
        environ: gives HOME, as for `load_inventory`.

    Raises:
        TuneError: the values cannot be written there by a small edit; the hint says what to write by hand.
    """
    try:
        texts = {str(path): path.read_bytes().decode("utf-8") for path in files}
    except (OSError, ValueError) as exc:
        raise UsageError(f"the inventory cannot be read: {exc}", code="no-inventory") from exc
    before = _inventory(files, texts, environ)
    placed = _placed(texts, host, server, environ)
    wanted = _wanted(_server(before, host, server), values)
    if placed is None or wanted == _server(before, host, server):
        return None
    found: list[Edit] = []
    for attempt in (_where_it_stands, _in_the_server):
        changed = attempt(texts, placed.settings, values)
        edit = changed and _judged(files, texts, changed, before, (host, server), wanted, environ)
        if edit:
            found.append(edit)
    if not found:
        raise TuneError(
            f"the threshold of {server} on {host} cannot be written into the inventory by a small edit",
            code="inventory-edit",
            context={"written at": str(_spot(placed.settings))},
            hint=f"write by hand: threshold: {{{_flow(values)}}}",
        )
    return min(found, key=lambda edit: len(edit.also))


def inventory_files(path: Path) -> list[Path]:
    """The files that `load_inventory` would read."""
    if not path.is_dir():
        return [path]
    names = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml") and not p.name.startswith("."))
    return [p for p in names if p.name != "example.yaml"]


# -- the two places

Changed = tuple[str, str]  # file name, its new text


def _where_it_stands(texts: Mapping[str, str], server: Located, values: Values) -> Changed | None:
    """Replace the numbers; what is not there yet goes behind `disable`."""
    table = server.get("threshold")
    disable = table.get("disable") if table else None
    if table is None or disable is None or not isinstance(table.value, dict):
        return None
    file = disable.where.file
    text = texts[file]
    edits: list[tuple[int, int, str]] = []  # from, to, new text
    missing: list[str] = []
    for key, name in KEYS.items():
        value, located = getattr(values, name), table.get(key)
        if value is None:
            continue
        if located is None:
            missing.append(f"{key}: {value}")
            continue
        at = _offset(text, located)
        number = re.compile(r"[\"']?\d+[\"']?").match(text, at if at is not None else len(text))
        if located.where.file != file or number is None:
            return None
        edits.append((number.start(), number.end(), str(value)))
    if missing:
        edits.append(_addition(text, table, max(end for _, end, _ in edits[:1]), missing))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return file, text


def _in_the_server(texts: Mapping[str, str], server: Located, values: Values) -> Changed | None:
    """A `threshold:` of its own, behind the server's name."""
    name = server.get("name")
    if name is None:
        return None
    text = texts[name.where.file]
    at = _offset(text, name)
    word = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[^\s,}#]+").match(text, at if at is not None else len(text))
    if word is None:
        return None
    start, end, new = _addition(text, server, word.end(), [f"threshold: {{{_flow(values)}}}"])
    return name.where.file, text[:start] + new + text[end:]


def _addition(text: str, table: Located, after: int, lines: list[str]) -> tuple[int, int, str]:
    """Further keys of a map, behind one of its values that ends at `after`: in its braces, or as lines."""
    at = _offset(text, table)
    if at is not None and text[at : at + 1] == "{":
        return after, after, "".join(f", {line}" for line in lines)
    end = text.find("\n", after)
    newline = "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"
    indent = " " * (table.where.column - 1)
    if end < 0:
        return len(text), len(text), "".join(newline + indent + line for line in lines)
    return end + 1, end + 1, "".join(indent + line + newline for line in lines)


def _offset(text: str, located: Located) -> int | None:
    """Where a value begins in the text."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    line = located.where.line
    return starts[line - 1] + located.where.column - 1 if 1 <= line <= len(starts) else None


def _flow(values: Values) -> str:
    given = ((key, getattr(values, name)) for key, name in KEYS.items())
    return ", ".join(f"{key}: {value}" for key, value in given if value is not None)


def _spot(settings: Located) -> str:
    threshold = settings.get("threshold")
    return (threshold or settings).where.spot


# -- read back


def _judged(
    files: Sequence[Path],
    texts: Mapping[str, str],
    changed: Changed,
    before: Inventory,
    target: tuple[str, str],
    wanted: ServerConfig,
    environ: Mapping[str, str],
) -> Edit | None:
    """The edit, when the loader reads from it what was wanted and nothing about hosts themselves changes."""
    name, text = changed
    try:
        after = _inventory(files, {**texts, name: text}, environ)
    except InventoryError:
        return None
    if _server(after, *target) != wanted or not _same_hosts(before, after):
        return None
    old, new = _servers(before), _servers(after)
    also = tuple(f"{h}/{s}" for h, s in old if (h, s) != target and old[h, s] != new.get((h, s)))
    return Edit(Path(name), texts[name], text, also)


def _wanted(server: ServerConfig, values: Values) -> ServerConfig:
    policy = server.threshold
    if policy is None:
        raise TuneError(f"{server.name} has no threshold in the inventory", code="inventory-edit")
    given = {key: getattr(values, name) for key, name in KEYS.items()}
    return replace(server, threshold=replace(policy, **{k: v for k, v in given.items() if v is not None}))


def _inventory(files: Sequence[Path], texts: Mapping[str, str], environ: Mapping[str, str]) -> Inventory:
    listed = [InventoryFile(str(path), texts[str(path)].encode()) for path in files]
    return parse_inventory(files[0], listed, environ=environ)


def _servers(inventory: Inventory) -> dict[tuple[str, str], ServerConfig]:
    return {(h.name, s.name): s for h in inventory.hosts for s in h.servers}


def _server(inventory: Inventory, host: str, server: str) -> ServerConfig:
    return _servers(inventory)[host, server]


def _same_hosts(before: Inventory, after: Inventory) -> bool:
    bare: Callable[[HostConfig], HostConfig] = lambda host: replace(host, servers=())  # noqa: E731
    return [bare(h) for h in before.hosts] == [bare(h) for h in after.hosts]


def _placed(
    texts: Mapping[str, str], host: str, server: str, environ: Mapping[str, str]
) -> PlacedServer | None:
    """The server with the places its settings were written at. The files are known to be in order."""
    problems = Problems()
    roots = [read_source(text.encode(), name, problems) for name, text in texts.items()]
    tables = [read(INVENTORY, root, "", problems) for root in roots if root is not None]
    entries = [e for t in tables for e in host_entries(t.get("hosts"), t.get("defaults"), problems)]
    hosts = unique(entries, problems)
    written = [g for t in tables for g in group_entries(t.get("groups"), hosts, problems)]
    resolver = Resolver(Inheritance(arrange(written, problems), problems), problems, environ.get("HOME"))
    found = resolver.host(hosts[host]) if host in hosts else None
    return next((s for s in (found.servers if found else ()) if s.config.name == server), None)
