"""`specctl base`: the SGLang that overlays are laid over."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from specctl.cli.main import json_option, output_of
from specctl.errors import UsageError
from specctl.exits import ExitCode

_folder = click.Path(path_type=Path, file_okay=False)
_wheelhouse = click.option(
    "--wheelhouse", type=_folder, help="Take the wheel from this folder; ask no network."
)


@click.group()
@click.option("--bases", type=_folder, help="Folder of your own base records.")
@click.pass_context
def base(ctx: click.Context, bases: Path | None) -> None:
    """List, fetch, check and lock bases, and add your own."""
    ctx.meta["specctl.bases"] = bases


def _store(ctx: click.Context):  # type: ignore[no-untyped-def]
    from specctl.base.store import BaseStore

    return BaseStore.discover(ctx.meta.get("specctl.bases"))


@base.command("list")
@json_option
@click.pass_context
def list_bases(ctx: click.Context, as_json: bool) -> None:
    """List every base that is known here."""
    from specctl.base.cache import Cache

    out, cache = output_of(ctx, as_json), Cache.discover()
    bases = _store(ctx).all()
    if as_json:
        out.json([{**asdict(b), "kind": b.kind, "cached": cache.find(b.sha256) is not None} for b in bases])
        return
    rows = [
        (
            b.name,
            b.kind,
            b.tag or getattr(b.source, "ref", "") or "",
            b.released or "",
            b.pins.get("torch", ""),
            "known" if b.route else "not known",
            ", ".join(b.locks),
            "yes" if cache.find(b.sha256) else "no",
        )
        for b in bases
    ]
    out.table(("base", "from", "ref", "released", "torch", "routes", "locks", "cached"), rows)


@base.command()
@click.argument("name")
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show all that is known of one base."""
    out = output_of(ctx, as_json)
    found = _store(ctx).get(name)
    if as_json:
        out.json({**asdict(found), "kind": found.kind, "sha256": found.sha256})
        return
    rows = [("version", found.version), ("from", found.kind)]
    rows += [(key, str(value)) for key, value in vars(found.source).items()]
    rows += [("hook edits of", found.like), ("tag", found.tag or ""), ("released", found.released or "")]
    rows += [("Python", found.python), ("glibc", f"{found.glibc} or newer")]
    rows += [("pins", ", ".join(f"{k} {v}" for k, v in found.pins.items()))]
    rows += [(worker, file) for worker, file in found.workers.items()]
    rows += [("note", note) for note in found.notes]
    for label, text in rows:
        if text:
            out.line(f"{label:24} {text}")


@base.command()
@click.argument("name", default="0.5.9")
@_wheelhouse
@json_option
@click.pass_context
def fetch(ctx: click.Context, name: str, wheelhouse: Path | None, as_json: bool) -> None:
    """Fetch a base's wheel (or build it from its source) into the cache, and check it."""
    from specctl.base.cache import Cache
    from specctl.base.fetch import fetch as fetch_base

    out = output_of(ctx, as_json)
    found = _store(ctx).get(name)
    path = fetch_base(found, Cache.discover(), wheelhouse=wheelhouse, say=out.note)
    if as_json:
        out.json({"base": found.name, "wheel": str(path), "sha256": found.sha256})
    else:
        out.line(f"{path}\nsha256 {found.sha256}" + ("" if found.kind == "wheel" else " (of the source)"))


@base.command()
@click.argument("name", required=False)
@click.option("--wheel", type=click.Path(path_type=Path), help="A wheel that should be the base's.")
@click.option("--tree", type=_folder, help="A checkout: which base is it, and what differs?")
@_wheelhouse
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    name: str | None,
    wheel: Path | None,
    tree: Path | None,
    wheelhouse: Path | None,
    as_json: bool,
) -> None:
    """Check a wheel, or judge a checkout, against a base.

    Without --wheel and --tree the base is fetched and checked. Exit code 3: the checkout differs.
    """
    from specctl.base.cache import Cache
    from specctl.base.fetch import fetch as fetch_base
    from specctl.base.model import WheelSource
    from specctl.base.verify import compare_tree, look_at_tree
    from specctl.base.wheel import check_published, check_record

    out, store, cache = output_of(ctx, as_json), _store(ctx), Cache.discover()
    if tree is not None:
        checkout = look_at_tree(tree)
        version = name or (checkout.version or "").split("+")[0]
        known = {b.name: b for b in store.all()}
        if name is not None:
            store.get(name)
        near = known.get(version)
        path = fetch_base(near, cache, wheelhouse=wheelhouse, say=out.note) if near else None
        told = compare_tree(checkout, near, path)
        if as_json:
            out.json({**asdict(told), "identical": told.identical})
        else:
            out.line(f"{told.folder}: SGLang {told.version or 'of no known version'}")
            out.line(f"content sha256 {told.sha256}")
            if near is None:
                out.line(
                    "no base of that version is known; compare with one: specctl base check 0.5.9 --tree DIR"
                )
            else:
                rows = [("changed", told.modified), ("missing", told.missing), ("added", told.added)]
                out.line(f"compared with {near.name}: " + ("identical" if told.identical else "it differs"))
                for label, paths in rows:
                    if paths:
                        shown = ", ".join(paths[:5]) + (" ..." if paths[5:] else "")
                        out.line(f"{label}: {len(paths)} files, {shown}")
                for worker, state in (told.workers or {}).items():
                    out.line(f"{worker}: {state}")
        if not told.identical:
            ctx.exit(int(ExitCode.CHANGES))
        return
    found = store.get(name or "0.5.9")
    path = wheel or fetch_base(found, cache, wheelhouse=wheelhouse, say=out.note)
    if isinstance(found.source, WheelSource):
        check_published(path, found.source, found.version)
    elif wheel is not None:
        raise UsageError(f"{found.name} is built from source, so no wheel can be checked against it")
    check_record(path)
    if as_json:
        out.json({"base": found.name, "wheel": str(path), "sha256": found.sha256, "ok": True})
    else:
        out.line(f"{path} is SGLang {found.version}: sha256 and RECORD agree")


@base.command()
@click.argument("name", default="0.5.9")
@click.option("--target", required=True, metavar="TARGET", help="cuda, cpu, or another target of the base.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File for the new lock.")
@click.option("--shipped", is_flag=True, help="Print the lock that came with specctl; resolve nothing.")
@json_option
@click.pass_context
def lock(
    ctx: click.Context, name: str, target: str, output: Path | None, shipped: bool, as_json: bool
) -> None:
    """Resolve what a base needs, as of its release day, with hashes.

    uv resolves, with the package index that it is configured for.
    """
    from specctl.base.disk import disk_errors, write_atomic
    from specctl.base.errors import RecordError
    from specctl.base.lock import lock_of, pins_of, resolve, shipped_lock

    out = output_of(ctx, as_json)
    found = _store(ctx).get(name)
    lock_of(found, target)
    if shipped:
        text = shipped_lock(found, target)
        if text is None:
            raise RecordError(f"no lock of {found.name} for {target} came with specctl")
    else:
        out.note(f"resolving what SGLang {found.version} needs for {target}")
        with tempfile.TemporaryDirectory() as folder:
            text = resolve(found, target, Path(folder))
    if output is not None:
        with disk_errors("the lock cannot be written", output):
            write_atomic(output, text.encode())
    if as_json:
        out.json(
            {"base": found.name, "target": target, "file": output and str(output), "pins": pins_of(text)}
        )
    elif output is None:
        click.echo(text, nl=False)
    else:
        out.line(f"{output}: {len(pins_of(text))} packages")


@base.command()
@click.option("--git", "url", help="A remote, a mirror, or the path of a local clone.")
@click.option("--ref", help="Tag, branch or commit.")
@click.option(
    "--subdirectory", default="python", show_default=True, help="Folder of the repository to build."
)
@click.option("--tree", type=_folder, help="A checkout on this machine, as it is now.")
@click.option("--name", help="Name of the new base.")
@click.option("--version", help="What it calls itself, where neither files nor tags say.")
@click.option("--like", help="Release whose hook edits and routes fit.")
@click.option("--replace", is_flag=True, help="Take the place of a base of the same name.")
@json_option
@click.pass_context
def add(
    ctx: click.Context,
    url: str | None,
    ref: str | None,
    subdirectory: str,
    tree: Path | None,
    name: str | None,
    version: str | None,
    like: str | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Add a base from a git ref or a checkout, pinned by the hash of its content."""
    from specctl.base.cache import Cache
    from specctl.base.source_base import base_of_git, base_of_tree

    out, store = output_of(ctx, as_json), _store(ctx)
    if (url is None) == (tree is None):
        raise UsageError("give either --git with --ref, or --tree")
    if tree is not None:
        added = base_of_tree(tree, store, name=name, version=version, like=like)
    else:
        if url is None or ref is None:
            raise UsageError("--git needs --ref", hint="name a tag, a branch or a commit")
        added = base_of_git(
            url,
            ref,
            store,
            Cache.discover(),
            subdirectory=subdirectory,
            name=name,
            version=version,
            like=like,
            say=out.note,
        )
    path = store.add(added, replace=replace)
    if as_json:
        out.json({**asdict(added), "kind": added.kind, "record": str(path)})
        return
    out.line(f"{added.name}: SGLang {added.version}, content sha256 {added.sha256}")
    out.line(f"hook edits and routes of {added.like}; record {path}")
