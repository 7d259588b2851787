"""A release's own command line, rebuilt with argparse from its list of arguments.

argparse splits a command line the same way here as in the server: `--flag=value`, unique prefixes such as
`--speculative-algo`, repeated flags (the last one wins) and wrong types all behave as they do there.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NoReturn

# Flags of the dynamic-disable overlay: each takes one value. A base without the overlay refuses them, but
# specctl only asks about servers that run a distribution.
OVERLAY_FLAGS: tuple[dict[str, Any], ...] = (
    {"flags": ["--speculative-disable-batch-threshold"], "type": "int"},
    {"flags": ["--speculative-resume-batch-threshold"], "type": "int"},
    {"flags": ["--speculative-resume-steps"], "type": "int"},
    {"flags": ["--speculative-disable-draft-sync"], "choices": ["cold", "lazy", "warm"]},
)

_TYPES = {"int": int, "float": float}


class CommandLineError(Exception):
    """argparse refuses the command line; the text is argparse's own."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandLineError(message if len(message) <= 240 else f"{message[:240]} ...")


@lru_cache(maxsize=8)
def load_options(name: str) -> tuple[dict[str, Any], ...]:
    """The arguments of one release, from the data file `name` of this package."""
    text = resources.files("specctl.route").joinpath("data").joinpath(name).read_text(encoding="utf-8")
    return tuple(json.loads(text))


@lru_cache(maxsize=8)
def parser_of(name: str) -> argparse.ArgumentParser:
    """A parser that accepts what the release and the overlay do; unset options are None, switches False."""
    parser = _Parser(add_help=False)
    for option in (*load_options(name), *OVERLAY_FLAGS):
        keywords: dict[str, Any] = {"dest": option["dest"]} if "dest" in option else {}
        if option.get("nargs") == 0:
            parser.add_argument(*option["flags"], action="store_true", **keywords)
            continue
        kind = _TYPES.get(option.get("type", ""))
        if kind is not None:
            keywords["type"] = kind
        for key in ("nargs", "choices"):  # `required` is left out: a question may come without its model
            if key in option:
                keywords[key] = option[key]
        parser.add_argument(*option["flags"], **keywords)
    return parser


def parse(name: str, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse server arguments of the release whose data file is `name`.

    Returns:
        The values, and the arguments that the release does not know.

    Raises:
        CommandLineError: the server's own parser would refuse them.
    """
    return parser_of(name).parse_known_args(list(argv))


def switches(name: str) -> frozenset[str]:
    """Destinations of the flags that take no value."""
    found = set()
    for option in load_options(name):
        if option.get("switch"):
            found.add(option.get("dest") or option["flags"][0].lstrip("-").replace("-", "_"))
    return frozenset(found)


def not_known(name: str, unknown: Sequence[str]) -> str:
    """The words that a release does not know, and the nearest known argument to each of them."""
    known = [flag for option in (*load_options(name), *OVERLAY_FLAGS) for flag in option["flags"]]
    typed = [word.partition("=")[0].replace("_", "-").lower() for word in unknown if word.startswith("--")]
    near = [flag for word in typed for flag in difflib.get_close_matches(word, known, 1, 0.8)]
    return " ".join(unknown) + (f" (did you mean {' and '.join(near)}?)" if near else "")
