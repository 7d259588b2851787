"""`specctl overlay`: look at overlays, judge trees, apply, remove, pin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from specctl.cli.main import json_option, output_of
from specctl.cli.overlay_view import (
    overlay_json,
    print_list,
    print_overlay,
    print_status,
    status_json,
    summary_json,
)
from specctl.errors import UsageError
from specctl.exits import ExitCode
from specctl.overlay.change import Settled, add_overlays, remove_overlays
from specctl.overlay.judge import base_for, judge
from specctl.overlay.pin import pin as pin_overlay
from specctl.overlay.store import OverlayStore
from specctl.overlay.tree import Tree


def complete_name(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Overlay names for the shell; an unreadable store completes nothing."""
    try:
        return [name for name in store_of(ctx).names() if name.startswith(incomplete)]
    except UsageError:
        return []


folder = click.Path(exists=True, file_okay=False, path_type=Path)
anything = click.Path(exists=True, path_type=Path)
named = click.option(
    "--overlay",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_name,
    help="Only this overlay (repeatable).",
)
insist = click.option(
    "--in-environment", is_flag=True, help="Allow editing an installed environment in place."
)


@click.group()
@click.option(
    "--overlays", type=folder, help="Folder of overlays instead of the ones that come with specctl."
)
@click.pass_context
def overlay(ctx: click.Context, overlays: Path | None) -> None:
    """Look at overlays; judge, change or pin what they edit."""
    ctx.meta["specctl.overlays"] = overlays


def store_of(ctx: click.Context) -> OverlayStore:
    """The overlays that this invocation works with."""
    return OverlayStore.discover(ctx.meta.get("specctl.overlays"))


@overlay.command("list")
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List all overlays in the order in which they lie on a base."""
    out = output_of(ctx, as_json)
    overlays = store_of(ctx).load_all()
    if as_json:
        out.json([summary_json(item) for item in overlays])
    else:
        print_list(out, overlays)


@overlay.command()
@click.argument("name", shell_complete=complete_name)
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show one overlay: why it exists, what it edits and what it pins."""
    out = output_of(ctx, as_json)
    item = store_of(ctx).load(name)
    if as_json:
        out.json(overlay_json(item))
    else:
        print_overlay(out, item)


@overlay.command()
@click.argument("tree", type=anything, required=False)
@named
@click.option(
    "--against", type=anything, help="The base's own tree or wheel: shows what a foreign edit changed."
)
@json_option
@click.pass_context
def status(
    ctx: click.Context, tree: Path | None, names: tuple[str, ...], against: Path | None, as_json: bool
) -> None:
    """Judge TREE: a folder above sglang/, a virtual environment or its python, or a wheel.

    Left out, TREE is the active environment. Exits 3 when anything is neither clean nor applied.
    """
    out = output_of(ctx, as_json)
    store = store_of(ctx)
    for name in names:
        store.folder(name)
    target = Tree.open(tree) if tree else _active()
    findings = judge(target, store.load_all(), against=Tree.open(against) if against else None)
    if names:
        findings = [f for f in findings if f.overlay is None or f.overlay in names]
    if as_json:
        out.json(status_json(target, findings))
    else:
        print_status(out, target, findings)
    ctx.exit(ExitCode.OK if all(f.state.good for f in findings) else ExitCode.CHANGES)


@overlay.command()
@click.argument("tree", type=anything)
@named
@insist
@json_option
@click.pass_context
def apply(
    ctx: click.Context, tree: Path, names: tuple[str, ...], in_environment: bool, as_json: bool
) -> None:
    """Put overlays (all, or the named ones) into TREE. Nothing is written when anything does not fit."""
    store = store_of(ctx)
    picked = [store.folder(name).name for name in names] or store.names()
    done = add_overlays(Tree.open(tree), store.load_all(), picked, in_environment=in_environment)
    _report(ctx, tree, done, as_json)


@overlay.command()
@click.argument("tree", type=anything)
@named
@insist
@json_option
@click.pass_context
def remove(
    ctx: click.Context, tree: Path, names: tuple[str, ...], in_environment: bool, as_json: bool
) -> None:
    """Take overlays (all, or the named ones) out of TREE: its bytes are the base's again."""
    store = store_of(ctx)
    target = Tree.open(tree)
    overlays = store.load_all()
    picked = [store.folder(name).name for name in names]
    # Without names: all that can be in this tree; an overlay without pins for its release cannot.
    picked = picked or [o.name for o in overlays if base_for(target, o) in o.bases]
    done = remove_overlays(target, overlays, picked, in_environment=in_environment)
    _report(ctx, tree, done, as_json)


def _report(ctx: click.Context, tree: Path, done: Settled, as_json: bool) -> None:
    out = output_of(ctx, as_json)
    if as_json:
        document = {"tree": str(tree), "base": done.base, "overlays": done.overlays, "changed": done.changed}
        out.json(document)
        return
    for path in done.changed:
        out.line(path)
    count = f"{len(done.changed)} files changed" if done.changed else "nothing to do"
    out.note(f"{count}; in {tree}: {', '.join(done.overlays) or 'no overlay'}")


@overlay.command()
@click.argument("name", shell_complete=complete_name)
@click.option("--base-tree", type=folder, required=True, help="Folder that holds the base's own sglang/.")
@click.option("--edited-tree", type=folder, help="The same with the edits in it.")
@click.option("--base", help="Version of the base (read from --base-tree when left out).")
@click.option("--from", "source", metavar="BASE", help="Move the edits pinned for BASE to --base-tree.")
@click.option(
    "--with", "below", multiple=True, metavar="NAME", help="Another overlay that is in the edited tree."
)
@click.option("--take-modules", is_flag=True, help="Copy new files of the edited tree into files/.")
@json_option
@click.pass_context
def pin(
    ctx: click.Context,
    name: str,
    base_tree: Path,
    edited_tree: Path | None,
    base: str | None,
    source: str | None,
    below: tuple[str, ...],
    take_modules: bool,
    as_json: bool,
) -> None:
    """Write the diffs, base hashes, function hashes and module hashes of an overlay.

    With --edited-tree from what that tree changes; with --from by moving the edits of another base; with
    neither, from the diffs that lie in the overlay's edits/BASE.
    """
    if edited_tree and source:
        raise UsageError("--edited-tree and --from exclude each other")
    out = output_of(ctx, as_json)
    store = store_of(ctx)
    pinned = pin_overlay(
        store.folder(name),
        base_tree,
        edited_tree,
        base=base,
        source=source,
        below=[store.load(other) for other in below],
        take_modules=take_modules,
    )
    loaded = store.load(name)
    if as_json:
        out.json(summary_json(loaded) | {"base": pinned.base, "changed": list(pinned.changed)})
        return
    rows = [(p, str(len(e.hunks)), ", ".join(f.name for f in e.functions)) for p, e in pinned.edits.items()]
    out.table(("file", "hunks", "functions"), rows, title=f"{name} on {pinned.base}")
    out.line(
        f"{len(pinned.modules)} modules; written: {', '.join(pinned.changed) or 'nothing, all is pinned'}"
    )


def _active() -> Tree:
    """sglang of the active virtual environment, else of the one that runs specctl."""
    prefix = Path(os.environ.get("VIRTUAL_ENV") or sys.prefix)
    try:
        return Tree.open(prefix)
    except UsageError as exc:
        raise UsageError(
            f"no TREE was given, and the active environment {prefix} holds no sglang", hint="give TREE"
        ) from exc
