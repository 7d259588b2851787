"""`specctl overlay`: look at overlays, judge trees, apply, remove, pin."""

from __future__ import annotations

from pathlib import Path

import click

from specctl.cli.main import json_option, output_of
from specctl.errors import UsageError
from specctl.overlay.pin import pin as pin_overlay
from specctl.overlay.store import OverlayStore

folder = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
@click.option(
    "--overlays", type=folder, help="Folder of overlays instead of the ones that come with specctl."
)
@click.pass_context
def overlay(ctx: click.Context, overlays: Path | None) -> None:
    """Look at overlays and judge, change or pin what they edit."""
    ctx.meta["overlays"] = overlays


def store_of(ctx: click.Context) -> OverlayStore:
    """The overlays that this invocation works with."""
    return OverlayStore.discover(ctx.meta.get("overlays"))


@overlay.command()
@click.argument("name")
@click.option("--base-tree", type=folder, required=True, help="Folder that holds the base's own sglang/.")
@click.option(
    "--edited-tree", type=folder, help="The same with the edits in it; left out: pin the diffs as they are."
)
@click.option("--base", help="Version of the base (read from --base-tree when left out).")
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
    below: tuple[str, ...],
    take_modules: bool,
    as_json: bool,
) -> None:
    """Write the diffs, base hashes, function hashes and module hashes of an overlay."""
    from specctl.overlay.tree import Tree

    out = output_of(ctx, as_json)
    store = store_of(ctx)
    version = base or Tree.open(base_tree).version
    if version is None:
        raise UsageError(f"{base_tree} does not say its version", hint="give it: --base 0.5.9")
    pinned = pin_overlay(
        store.folder(name),
        version,
        base_tree,
        edited_tree,
        below=[store.load(other) for other in below],
        take_modules=take_modules,
    )
    loaded = store.load(name)
    if as_json:
        out.json({"overlay": name, "base": version, "sha256": loaded.sha256, "changed": list(pinned.changed)})
        return
    rows = [
        (path, str(len(edit.hunks)), ", ".join(f.name for f in edit.functions))
        for path, edit in pinned.edits.items()
    ]
    out.table(("file", "hunks", "functions"), rows, title=f"{name} on {version}")
    out.line(
        f"{len(pinned.modules)} modules; written: {', '.join(pinned.changed) or 'nothing, all is pinned'}"
    )
