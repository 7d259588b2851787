"""checks.yaml of an overlay: the server arguments that it adds, and command lines that try its checks.

flags: [--speculative-disable-batch-threshold]
accepts:
  - [--speculative-algorithm, EAGLE, --speculative-disable-batch-threshold, "16"]
refuses:
  - args: [--speculative-disable-batch-threshold, "-1"]
    says: must be 0 or more
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from specctl.errors import UsageError
from specctl.overlay.model import Overlay

FILE = "checks.yaml"


@dataclass(frozen=True)
class Refusal:
    """Server arguments that must be refused, with a text that the refusal must contain."""

    args: tuple[str, ...]
    says: str


@dataclass(frozen=True)
class Checks:
    """What all overlays of a distribution ask of SGLang's own argument parser."""

    flags: tuple[str, ...] = ()
    accepts: tuple[tuple[str, ...], ...] = ()
    refuses: tuple[Refusal, ...] = ()


def load_checks(overlays: Sequence[Overlay]) -> Checks:
    """The checks of some overlays together; an overlay without the file asks for nothing.

    Raises:
        UsageError: a file has another shape.
    """
    flags: list[str] = []
    accepts: list[tuple[str, ...]] = []
    refuses: list[Refusal] = []
    for overlay in overlays:
        path = overlay.root / FILE
        if not path.is_file():
            continue
        try:
            raw = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            flags += [str(flag) for flag in raw.get("flags", ())]
            accepts += [_words(args) for args in raw.get("accepts", ())]
            refuses += [Refusal(_words(r["args"]), str(r["says"])) for r in raw.get("refuses", ())]
        except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError) as exc:
            raise UsageError(
                f"{FILE} of overlay {overlay.name} is wrong: {' '.join(str(exc).split())}",
                context={"file": str(path)},
            ) from exc
    return Checks(tuple(flags), tuple(accepts), tuple(refuses))


def _words(args: object) -> tuple[str, ...]:
    if not isinstance(args, list):
        raise TypeError(f"{args!r} is no list of arguments")
    return tuple(str(arg) for arg in args)
