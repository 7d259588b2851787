"""The options with which every verb picks its hosts, and the one way from them to an inventory."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from specctl.base.store import BaseStore
from specctl.cli.output import Output
from specctl.config.inventory import holds_inventory, load_inventory
from specctl.config.model import HostConfig, Inventory
from specctl.config.problems import shown
from specctl.config.selection import select
from specctl.errors import SpecctlError, UsageError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Selection:
    """What the user asked for, as typed."""

    inventory: Path | None = None
    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    limit: int | None = None
    servers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selected:
    """The inventory and the hosts that are meant, each with only the servers that are meant."""

    inventory: Inventory
    hosts: tuple[HostConfig, ...]


def selection_options(command: F) -> F:
    """Add -i/--inventory, --hosts, --group, --limit and --server; the command gets one `selection` keyword.

    Use it below `@click.command()`:

        @click.command()
        @selection_options
        @click.pass_context
        def deploy(ctx: click.Context, selection: Selection) -> None: ...
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        selection = Selection(
            inventory=kwargs.pop("inventory"),
            hosts=_split(kwargs.pop("hosts"), "--hosts"),
            groups=_split(kwargs.pop("groups"), "--group"),
            limit=kwargs.pop("limit"),
            servers=_split(kwargs.pop("servers"), "--server"),
        )
        return command(*args, selection=selection, **kwargs)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def selected(selection: Selection, output: Output) -> Selected:
    """Find and load the inventory, say its warnings on stderr, and pick the hosts.

    Raises:
        InventoryError: the inventory cannot be used.
        UsageError: there is none, or nothing in it matches.
    """
    path = selection.inventory or default_inventory(Path.cwd(), os.environ.get("SPECCTL_INVENTORY"))
    inventory = load_inventory(path, environ=os.environ, bases=BaseStore.discover().versions())
    for warning in inventory.warnings:
        output.note(f"warning: {warning}")
    try:
        hosts = select(inventory, selection.hosts, selection.groups, selection.limit, selection.servers)
    except UsageError as exc:
        exc.context = {"inventory": str(path), **exc.context}
        raise
    return Selected(inventory, hosts)


def of_server(selection: Selection, server: str | None) -> Selection:
    """The selection of a verb that takes one server as its argument.

    Raises:
        UsageError: --server names one too.
    """
    if server is None:
        return selection
    if selection.servers:
        raise UsageError("the server is named twice: as an argument and with --server", code="server-twice")
    return replace(selection, servers=(server,))


def default_inventory(cwd: Path, configured: str | None) -> Path:
    """$SPECCTL_INVENTORY, else ./hosts, else ./hosts.yaml.

    A hosts folder with nothing but the example counts only when there is no hosts.yaml beside it.

    Raises:
        UsageError: none of them is there.
    """
    if configured:
        return Path(configured)
    folder, file = Path("hosts"), Path("hosts.yaml")
    if holds_inventory(cwd / folder):
        return folder
    if (cwd / file).exists():
        return file
    if (cwd / folder).exists():
        return folder
    raise UsageError(
        "there is no inventory",
        code="no-inventory",
        context={"looked for": "$SPECCTL_INVENTORY, hosts/, hosts.yaml", "in": str(cwd)},
        hint="name one with -i FILE; `specctl hosts --example` shows how to write one",
    )


def _complete(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completion of names from the inventory; a broken inventory completes to nothing."""

    def complete(ctx: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        try:
            path = ctx.params.get("inventory") or default_inventory(
                Path.cwd(), os.environ.get("SPECCTL_INVENTORY")
            )
            inventory = load_inventory(Path(path), environ=os.environ)
        except SpecctlError:
            return []
        names = {
            "hosts": [h.name for h in inventory.hosts],
            "groups": list(inventory.groups),
            "servers": sorted({s.name for h in inventory.hosts for s in h.servers}),
        }[kind]
        before, comma, last = typed.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last)]

    return complete


def _split(values: tuple[str, ...], option: str) -> tuple[str, ...]:
    """`--hosts a,b --hosts c` is a, b and c.

    Raises:
        UsageError: a value without any name, as of an unset variable: it must not come to mean all of them.
    """
    names: list[str] = []
    for value in values:
        found = [part.strip() for part in value.split(",") if part.strip()]
        if not found:
            what = option.removeprefix("--").removesuffix("s")
            raise UsageError(
                f"{option} names no {what}: it is {shown(value)}",
                code="nothing-named",
                hint=f"is a variable unset? leave {option} out to mean every {what}",
            )
        names += found
    return tuple(names)


_OPTIONS = (
    click.option(
        "-i",
        "--inventory",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Inventory file or folder [default: $SPECCTL_INVENTORY, ./hosts, ./hosts.yaml].",
    ),
    click.option(
        "--hosts",
        multiple=True,
        metavar="NAMES",
        shell_complete=_complete("hosts"),
        help="Only these hosts: names, ranges gpu-[01:04], globs gpu-*; a,b or given again.",
    ),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="NAMES",
        shell_complete=_complete("groups"),
        help="Only hosts of these groups.",
    ),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N of them."),
    click.option(
        "--server",
        "servers",
        multiple=True,
        metavar="NAMES",
        shell_complete=_complete("servers"),
        help="Only servers of these names.",
    ),
)
