"""Base records as YAML: one file per base. Shipped ones describe releases, the user's ones source bases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from specctl.base.errors import RecordError
from specctl.base.model import Base, GitSource, Lock, Source, TreeSource, WheelSource
from specctl.route.model import RouteRules

_SOURCES: dict[str, type[WheelSource] | type[GitSource] | type[TreeSource]] = {
    "wheel": WheelSource,
    "git": GitSource,
    "tree": TreeSource,
}


def parse_record(text: str, origin: str, parent: Base | None = None) -> Base:
    """One record.

    Args:
        origin: the file, for messages.
        parent: the release named by the record's `like`, whose facts a source base takes over.

    Raises:
        RecordError: not YAML, a key is missing or unknown, or a value has the wrong shape.
    """
    raw = read_mapping(text, origin)
    try:
        kind, source = _source(raw)
        like = str(raw.get("like", raw["version"]))
        common: dict[str, Any] = {
            "name": str(raw["name"]),
            "version": str(raw["version"]),
            "like": like,
            "source": source,
            "origin": origin,
            "notes": tuple(raw.get("notes", ())),
        }
        if kind != "wheel":
            return _derived(common, parent)
        route = RouteRules.parse({**raw["route"], "files": raw["workers"]}) if raw.get("route") else None
        return Base(
            **common,
            tag=str(raw["tag"]),
            released=str(raw["released"]),
            python=str(raw["python"]),
            glibc=str(raw["glibc"]),
            pins={str(k): str(v) for k, v in raw["pins"].items()},
            workers={str(k): str(v) for k, v in raw["workers"].items()},
            locks={name: _lock(name, lock) for name, lock in (raw.get("locks") or {}).items()},
            route=route,
        )
    except KeyError as exc:
        raise RecordError(f"the base record has no {exc.args[0]!r}", context={"file": origin}) from exc
    except (TypeError, ValueError, AttributeError) as exc:
        raise RecordError(f"the base record is wrong: {exc}", context={"file": origin}) from exc


def read_mapping(text: str, origin: str) -> dict[str, Any]:
    """The record's YAML as a mapping. Raises RecordError."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        cause = " ".join(str(exc).split())
        raise RecordError(f"the base record is not YAML: {cause}", context={"file": origin}) from exc
    if not isinstance(raw, dict):
        raise RecordError("the base record is not a mapping", context={"file": origin})
    return raw


def dump_record(base: Base) -> str:
    """The YAML of a source base, as `specctl base add` writes it."""
    source = dict(vars(base.source))
    record = {"name": base.name, "version": base.version, "like": base.like, base.kind: source}
    return str(yaml.safe_dump(record, sort_keys=False, allow_unicode=True))


def _source(raw: Mapping[str, Any]) -> tuple[str, Source]:
    kinds = [kind for kind in _SOURCES if kind in raw]
    if len(kinds) != 1:
        raise ValueError("it needs exactly one of 'wheel', 'git' and 'tree'")
    kind = kinds[0]
    return kind, _SOURCES[kind](**raw[kind])


def _derived(common: dict[str, Any], parent: Base | None) -> Base:
    """A source base: what is not its own comes from the release it is like, when that is known."""
    return Base(
        **common,
        tag=None,
        released=None,
        python=parent.python if parent else ">=3.10",
        glibc=parent.glibc if parent else "2.28",
        pins=parent.pins if parent else {},
        workers=parent.workers if parent else {},
        locks=parent.locks if parent else {},
        route=parent.route if parent else None,
    )


def _lock(target: str, raw: Mapping[str, Any]) -> Lock:
    return Lock(
        target=target,
        file=raw.get("file"),
        requires=tuple(_flat(raw["requires"])),
        python=str(raw["python"]),
        platform=raw.get("platform"),
        as_of=str(raw["as_of"]),
        later={str(k): str(v) for k, v in (raw.get("later") or {}).items()},
        note=str(raw.get("note", "")),
    )


def _flat(lines: list[str | list[str]]) -> list[str]:
    """A list in the list stands for its own lines, so that two targets can share them."""
    return [item for line in lines for item in (line if isinstance(line, list) else [line])]
