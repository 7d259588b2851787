"""What `specctl tune` makes of its options: workloads, and whether it may restart the server."""

from __future__ import annotations

import sys
from typing import Any

import click

from specctl.cli.output import Output
from specctl.config.model import ServerConfig
from specctl.errors import UsageError
from specctl.tune.prompts import Workload, check_distinct, own, shareable
from specctl.tune.tuning import levels_from

MOST_PROMPTS = 2000  # different ones; a longer run uses them again


def plain_boot(given: dict[str, Any], server: ServerConfig, output: Output) -> tuple[bool, str]:
    """Whether the server may be restarted for the plain one; else why not, for the report."""
    if given["plain_boot"] is not None:
        return bool(given["plain_boot"]), "" if given["plain_boot"] else "--no-plain-boot was given"
    if given["yes"]:
        return True, ""
    if output.as_json or not sys.stdin.isatty():
        return False, "nobody could be asked whether the server may be restarted (--plain-boot)"
    may = click.confirm(
        f"To check that off is as fast as a plain server, {server.name} is restarted twice at the end: "
        "without speculation, and then as it is now. May it be?",
        err=True,
    )
    return may, "" if may else "the server was not to be restarted"


def workloads(given: dict[str, Any], levels: tuple[int, ...]) -> tuple[Workload, ...]:
    """The user's own prompts, or made ones of each context length.

    Raises:
        UsageError: both were asked for, or a file holds no prompt.
    """
    if given["datasets"]:
        if given["contexts"]:
            raise UsageError("--context is for made prompts, and --dataset gives your own", code="dataset")
        found = tuple(own(path, given["output_len"]) for path in given["datasets"])
        check_distinct(found)
        return found
    count = min(MOST_PROMPTS, max(levels or (512,)) * given["waves"] + 8)
    lengths = levels_from(given["contexts"] or ("256,2048",))
    return tuple(shareable(n, count, given["output_len"]) for n in dict.fromkeys(lengths))
