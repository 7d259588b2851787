"""`specctl build`: a base, overlays over it, and a wheel with its provenance."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from specctl.cli.main import json_option, output_of

_folder = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option(
    "--base", "base_name", default="0.5.9", show_default=True, help="Base, see `specctl base list`."
)
@click.option("--tree", type=_folder, help="Build over a checkout on this machine instead of a base by name.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Folder for the distribution.")
@click.option(
    "--overlay", "names", multiple=True, metavar="NAME", help="Overlays to lay over it; all if unset."
)
@click.option(
    "--overlays", type=_folder, help="Folder of overlays instead of the ones that come with specctl."
)
@click.option("--bases", type=_folder, help="Folder of your own base records.")
@click.option("--wheelhouse", type=_folder, help="Take the base's wheel from this folder; ask no network.")
@click.option("--revision", type=int, help="N of +specctl.N; left out: the pinned one.")
@click.option("--bump", is_flag=True, help="Take the next revision for changed inputs, and pin it.")
@click.option("--repin", is_flag=True, help="Pin changed inputs to the same, not yet published revision.")
@click.option(
    "--validate-with", metavar="PYTHON", help="A Python that can import the result; this one if unset."
)
@click.option("--no-import", is_flag=True, help="Do not import the result (it is still compiled and judged).")
@json_option
@click.pass_context
def build(
    ctx: click.Context,
    base_name: str,
    tree: Path | None,
    output: Path,
    names: tuple[str, ...],
    overlays: Path | None,
    bases: Path | None,
    wheelhouse: Path | None,
    revision: int | None,
    bump: bool,
    repin: bool,
    validate_with: str | None,
    no_import: bool,
    as_json: bool,
) -> None:
    """Build sglang with overlays as a wheel, with provenance and locks beside it.

    The same inputs give the same bytes. The output folder is replaced whole, after the result was validated.
    """
    from specctl.base.cache import Cache
    from specctl.base.fetch import fetch
    from specctl.base.source_base import base_of_tree
    from specctl.base.store import BaseStore
    from specctl.build import revision as revisions
    from specctl.build.builder import Plan, shipped_locks
    from specctl.build.builder import build as build_plan
    from specctl.build.output import check_output
    from specctl.build.validate import find_python
    from specctl.errors import UsageError
    from specctl.overlay.store import OverlayStore

    if bump and repin:
        raise UsageError("--bump and --repin exclude each other")
    out = output_of(ctx, as_json)
    check_output(output)
    records = BaseStore.discover(bases)
    base = base_of_tree(tree, records) if tree is not None else records.get(base_name)
    store = OverlayStore.discover(overlays)
    chosen = tuple(sorted((store.load(n) for n in names or store.names()), key=lambda o: (o.order, o.name)))
    pins = store.root / revisions.FILE
    change = revisions.Change.BUMP if bump else revisions.Change.REPIN if repin else revisions.Change.KEEP
    partial = {o.name for o in chosen} != set(store.names())
    if change is not revisions.Change.KEEP:
        revisions.check_may_pin(pins, owned=not store.shipped, partial=partial)
    number = revisions.choose(
        base.name,
        revisions.inputs_digest(base.sha256, chosen),
        revisions.read_pins(pins),
        explicit=revision,
        change=change,
        may_pin=not (store.shipped or partial),
    )
    wheel = fetch(base, Cache.discover(), wheelhouse=wheelhouse, say=out.note)
    python, why = (None, "--no-import was given") if no_import else find_python(validate_with)
    plan = Plan(base, wheel, chosen, number.revision, output, shipped_locks(base), python, why)
    built = build_plan(plan, say=out.note)
    if number.pin is not None:
        revisions.write_pin(pins, base.name, number.pin)
        out.note(f"pinned revision {number.revision} of {base.name} in {pins}")
    dist, checked = built.distribution, built.validation
    if as_json:
        document = {
            "folder": str(built.folder),
            "changed": built.changed,
            "distribution": asdict(dist),
            "validation": {**asdict(checked), "imported": checked.imported_with is not None},
        }
        out.json(document)
        return
    out.line(f"{built.folder / dist.wheel}" + ("" if built.changed else " (unchanged)"))
    out.line(f"sha256 {dist.wheel_sha256}")
    out.line(f"overlays: {', '.join(o.name for o in dist.overlays) or 'none'}; {len(dist.files)} files")
    out.line(f"validated: RECORD, overlay status, {checked.compiled} files compile")
    if checked.imported_with is None:
        out.note(f"import validation was NOT run: {checked.why_not_imported}")
    else:
        out.line(
            f"imported with {checked.imported_with}: {checked.modules} modules,"
            f" {len(checked.flags)} new flags, {checked.checks} command lines tried"
        )
