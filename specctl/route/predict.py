"""`predict`: which worker class a server's arguments and environment select on a base, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from specctl.base.errors import UnknownBase
from specctl.base.store import BaseStore
from specctl.route.config_file import ConfigFileError, Read, expand
from specctl.route.errors import RouteUnknown
from specctl.route.model import Route, RouteRules
from specctl.route.options import CommandLineError, not_known, parse, switches
from specctl.route.rules import decide


def predict(
    base_version: str,
    server_args: Sequence[str],
    env: Mapping[str, str],
    *,
    architecture: str | None = None,
    read: Read | None = None,
    store: BaseStore | None = None,
) -> Route:
    """The route of one server.

    Args:
        base_version: a base that specctl knows; a local part such as `+specctl.1` is ignored, and a
            development version that is no base, such as 0.5.9.post0.dev12, stands for its release.
        server_args: arguments of `sglang.launch_server`, as the server gets them.
        env: the server's environment; only SGLang's own variables are looked at.
        architecture: the model's first architecture; None: from the model's config.json, if `read` finds it.
        read: gives the bytes of a file where the server runs, None when there is none. Needed for --config
            and for a model that is a local folder.
        store: where bases are looked up; None: this user's own store.

    Returns:
        The route; `problems` says why the server would refuse to start.

    Raises:
        UnknownBase: no such base.
        RouteUnknown: the base's record has no rules.
    """
    public = base_version.split("+", 1)[0]
    rules = _rules(public) if store is None else _route_of(store, public)
    try:
        args, unknown = parse(rules.options, expand(server_args, switches(rules.options), read))
    except (CommandLineError, ConfigFileError) as exc:
        return Route(public, None, False, (), (f"SGLang refuses the command line: {exc}",))
    if architecture is None and read is not None and args.model_path:
        architecture = _architecture(read(f"{args.model_path.rstrip('/')}/config.json"))
    route = decide(public, rules, args, env, architecture)
    changes: dict[str, object] = {}
    if unknown:
        # The server's parser stops there; what else looks wrong may only follow from the unknown word.
        problem = f"SGLang {public} does not know: {not_known(rules.options, unknown)}"
        changes.update(worker=None, file=None, problems=(problem,))
    if args.config is not None:
        ignored = f"SGLang ignores --config={args.config}: write it as two words"
        changes["warnings"] = (*route.warnings, ignored)
    return Route(**{**vars(route), **changes}) if changes else route


def read_local(name: str) -> bytes | None:
    """`read` for files of this machine."""
    try:
        return Path(name).read_bytes()
    except OSError:
        return None


@lru_cache(maxsize=16)
def _rules(version: str) -> RouteRules:
    return _route_of(BaseStore.discover(), version)


def _route_of(store: BaseStore, version: str) -> RouteRules:
    try:
        rules = store.get(version).route
    except UnknownBase:
        release = _release_of(version)
        if release not in {base.name for base in store.releases()}:
            raise
        rules = store.get(str(release)).route
    if rules is None:
        raise RouteUnknown(
            f"specctl does not know how SGLang {version} chooses its worker class",
            hint="bases whose routes are known: specctl base list",
        )
    return rules


def _release_of(version: str) -> str | None:
    """0.5.9.post0.dev12 -> 0.5.9; None for anything but a development version."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return None
    return parsed.base_version if parsed.is_devrelease else None


def _architecture(config: bytes | None) -> str | None:
    try:
        names = json.loads(config or b"{}").get("architectures") or []
        return str(names[0]) if names else None
    except (ValueError, AttributeError, TypeError):
        return None
