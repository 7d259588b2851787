"""From a file, or a folder of files, to an `Inventory`: the one entry to `specctl.config`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from specctl.config.checks import check_inventory
from specctl.config.decode import MAX_BYTES
from specctl.config.groups import arrange, group_entries
from specctl.config.inherit import Inheritance, host_entries, unique
from specctl.config.model import Inventory
from specctl.config.problems import Problem, Problems
from specctl.config.reader import Located, read
from specctl.config.resolve import Resolver
from specctl.config.schema import INVENTORY
from specctl.config.source import read_source
from specctl.errors import UsageError

EXAMPLE = "example.yaml"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class InventoryFile:
    """One file of an inventory, read from wherever: `name` is what messages call it."""

    name: str
    data: bytes


def load_inventory(
    path: Path, *, environ: Mapping[str, str], bases: Collection[str] | None = None
) -> Inventory:
    """Read and check an inventory file, or every *.yaml of a folder (its example.yaml is left out).

    `environ` gives HOME, for a leading `~` in paths on the operator's machine; nothing else is read from it.
    `bases`: the versions that are known on this machine; another one is doubtful. None: any may be meant.

    Raises:
        InventoryError: everything that is wrong at once, each with file, line, column, path and a suggestion.
        UsageError: there is no such file, it cannot be read, or the folder has no inventory in it.
    """
    files = [_read_file(file) for file in _files(path)]
    return parse_inventory(path, files, environ=environ, bases=bases)


def parse_inventory(
    path: Path,
    files: list[InventoryFile],
    *,
    environ: Mapping[str, str],
    bases: Collection[str] | None = None,
) -> Inventory:
    """The inventory that some files are together. Each file's `defaults` are for its own hosts.

    Raises:
        InventoryError: as `load_inventory`.
    """
    problems, warnings = Problems(), Problems()
    tables: list[Located] = []
    for file in files:
        root = read_source(file.data, file.name, problems)
        if root is not None:
            tables.append(read(INVENTORY, root, "", problems))
    if len(tables) < len(files):
        problems.raise_any()  # with a file missing, its hosts would be reported as unknown everywhere
    entries = [e for t in tables for e in host_entries(t.get("hosts"), t.get("defaults"), problems)]
    hosts = unique(entries, problems)
    written = [g for t in tables for g in group_entries(t.get("groups"), hosts, problems)]
    groups = arrange(written, problems)
    resolver = Resolver(Inheritance(groups, problems), problems, environ.get("HOME"))
    placed = [host for host in map(resolver.host, hosts.values()) if host is not None]
    check_inventory(placed, problems, warnings, bases)
    if not entries and not problems and tables:
        where = tables[0].where
        problems.add("missing", where, "the inventory has no hosts", "add `hosts:` with a line for each host")
    problems.raise_any()
    return Inventory(
        path=path,
        hosts=tuple(host.config for host in placed),
        groups={g.name: tuple(h for h in hosts if h in groups.members[g.name]) for g in written},
        warnings=tuple(_warning(w) for w in sorted(warnings.all, key=lambda w: w.where)),
    )


def example_text() -> str:
    """The annotated example, as specctl ships it."""
    package = Path(__file__).parents[1]
    candidates = (package.parent / "hosts" / EXAMPLE, package / "_shipped" / "hosts" / EXAMPLE)
    return next(path for path in candidates if path.is_file()).read_text(encoding="utf-8")


def holds_inventory(folder: Path) -> bool:
    """Whether a folder has an inventory in it, the example aside."""
    return folder.is_dir() and any(path.name != EXAMPLE for path in _yaml_files(folder))


def _yaml_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix in _SUFFIXES and not p.name.startswith("."))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = _yaml_files(path)
    files = [p for p in found if p.name != EXAMPLE]
    if not files:
        example = path / EXAMPLE
        what, hint = "no *.yaml file", "write your hosts in a file of it, or name a file with -i"
        if found:
            what = "only the example, which is not deployed by accident"
            hint = f"copy {example} and write your hosts in it; to look at the example: -i {example}"
        raise UsageError(
            f"{path} holds {what}", code="no-inventory", context={"folder": str(path)}, hint=hint
        )
    return files


def _read_file(path: Path) -> InventoryFile:
    try:
        with path.open("rb") as stream:
            return InventoryFile(str(path), stream.read(MAX_BYTES + 1))
    except OSError as exc:
        raise UsageError(
            f"cannot read the inventory {path}: {exc.strerror or type(exc).__name__}",
            code="no-inventory",
            context={"file": str(path)},
            hint="name an inventory with -i FILE, or set SPECCTL_INVENTORY",
        ) from exc


def _warning(problem: Problem) -> str:
    return f"{problem.where}: {problem.text}; {problem.hint}"
