"""Wrong command lines: what click says of them, as errors of our own."""

from __future__ import annotations

from collections.abc import Sequence

import click

from specctl.errors import UsageError

# a group without a verb prints its help; click before 8.2 does so by itself
HELP_ASKED: tuple[type[click.ClickException], ...] = tuple(
    kind for kind in (getattr(click.exceptions, "NoArgsIsHelpError", None),) if kind is not None
)


def usage_error(exc: click.ClickException) -> UsageError:
    """The same, with what was likely meant, or where to look, as the hint."""
    context = exc.ctx if isinstance(exc, click.UsageError) else None
    near: Sequence[str] = getattr(exc, "possibilities", None) or ()
    path = context.command_path if context else "specctl"
    usage = " ".join(context.get_usage().split()).removeprefix("Usage: ") if context else ""
    return UsageError(
        exc.message if near else exc.format_message(),
        context={"usage": usage} if usage else {},
        hint=f"did you mean {' or '.join(near)}?" if near else f"{path} --help shows what there is",
    )
