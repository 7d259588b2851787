"""Making a base record of a git ref or a checkout."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from packaging.version import Version

from specctl.base.cache import Cache
from specctl.base.model import Base, Source, TreeSource
from specctl.base.process import Run, run
from specctl.base.records import parse_record
from specctl.base.source import Say, resolve_git, source_version
from specctl.base.store import BaseStore
from specctl.base.verify import look_at_tree
from specctl.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def base_of_git(
    url: str,
    ref: str,
    store: BaseStore,
    cache: Cache,
    *,
    subdirectory: str = "python",
    name: str | None = None,
    version: str | None = None,
    like: str | None = None,
    say: Say,
    runner: Run = run,
) -> Base:
    """Pin a ref of a repository as a base; nothing is written but a temporary clone.

    Args:
        version: what it is to call itself; None: as the tree or its tags say.
        like: the release whose hook edits and routes fit; None: the release of its version.

    Raises:
        UsageError, SourceError, AlreadyPatched, FetchFailed: see `source.resolve_git`.
    """
    if Path(url).exists():
        url = str(Path(url).resolve())
    with cache.workspace() as folder:
        source, checkout = resolve_git(url, ref, subdirectory, folder, say=say, runner=runner)
        found = source_version(checkout, version)
    return _base(name or f"{Version(found).public}-{source.commit[:10]}", found, like, source, store)


def base_of_tree(
    path: Path,
    store: BaseStore,
    *,
    name: str | None = None,
    version: str | None = None,
    like: str | None = None,
) -> Base:
    """Pin a checkout on this machine as a base, by the files that it holds now.

    Raises:
        UsageError, SourceError, AlreadyPatched.
    """
    checkout = look_at_tree(path)
    source = TreeSource(str(checkout.folder.resolve()), checkout.sha256)
    found = source_version(checkout, version)
    return _base(name or f"{Version(found).public}-tree-{source.sha256[:10]}", found, like, source, store)


def _base(name: str, version: str, like: str | None, source: Source, store: BaseStore) -> Base:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a base", hint="letters, digits, dot, dash, plus, underscore"
        )
    shipped = {base.name: base for base in store.releases()}
    if like is not None and like not in shipped:
        raise UsageError(f"{like!r} is no release that specctl knows", hint=f"known: {', '.join(shipped)}")
    like = like or Version(version).base_version
    kind = {"GitSource": "git", "TreeSource": "tree"}[type(source).__name__]
    text = yaml.safe_dump({"name": name, "version": version, "like": like, kind: dict(vars(source))})
    return parse_record(text, "this command", shipped.get(like))
