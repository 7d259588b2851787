"""Whether what a host answered has the types that its dataclass promises: Python itself checks none. Pure."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from specctl.host.errors import HostError

T = TypeVar("T")


def misfit(value: object, wanted: Any, where: str = "") -> str | None:
    """The first place where `value` is not of the type `wanted`, in words; None: it fits.

    Knows what the facts and states of hosts are made of: plain types, X | None, tuple[X, ...], Mapping[K, V]
    and dataclasses of these. A whole number counts as a float, a bool does not count as a number.
    """
    origin = typing.get_origin(wanted)
    if wanted is Any:
        return None
    if origin in (typing.Union, types.UnionType):
        options = typing.get_args(wanted)
        found = [misfit(value, option, where) for option in options]
        given = [f for f, option in zip(found, options, strict=True) if option is not type(None)]
        return None if None in found else given[0]
    if origin is tuple:
        item = typing.get_args(wanted)[0]
        parts = [] if not isinstance(value, tuple) else list(enumerate(value))
        wrong = (misfit(part, item, f"{where}[{index}]") for index, part in parts)
        return _said(value, tuple, where) or next((w for w in wrong if w), None)
    if origin in (dict, Mapping):
        key, item = typing.get_args(wanted)
        pairs = value.items() if isinstance(value, Mapping) else ()
        wrong = (misfit(k, key, f"{where} key") or misfit(v, item, f"{where}[{k!r}]") for k, v in pairs)
        return _said(value, Mapping, where) or next((w for w in wrong if w), None)
    if is_dataclass(wanted):
        hints = _hints(typing.cast(type, wanted))
        wrong = (
            misfit(getattr(value, name), hint, f"{where}.{name}".lstrip(".")) for name, hint in hints.items()
        )
        return _said(value, typing.cast(type, wanted), where) or next((w for w in wrong if w), None)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return None
    if isinstance(value, bool) and wanted in (int, float):
        return f"{where} is a bool"
    return _said(value, wanted, where)


def shaped(host: str, what: str, raw: object, make: Callable[[Any], T]) -> T:
    """What `make` makes of an answer, when every part of it has the type that it should.

    Raises:
        HostError: it has not; the code is `no-<what>`, and the context holds the beginning of the answer.
    """
    try:
        made = make(raw)
        cause = misfit(made, type(made))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as exc:
        cause = f"{type(exc).__name__}: {exc}"
    if cause is None:
        return made
    raise HostError(
        f"{host} answered something that is no {what}",
        code=f"no-{what}",
        context={"host": host, "cause": cause, "answer": repr(raw)[:500]},
        hint="look at the files below the root there, and at what its login scripts print",
    )


def _said(value: object, wanted: type, where: str) -> str | None:
    return None if isinstance(value, wanted) else f"{where or 'the answer'} is of type {type(value).__name__}"


@cache
def _hints(cls: type) -> dict[str, Any]:
    known = typing.get_type_hints(cls)
    return {f.name: known[f.name] for f in fields(cls)}
