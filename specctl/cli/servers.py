"""What the verbs that touch running servers share: all hosts at once, progress, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from specctl.cli.output import Output
from specctl.config.model import HostConfig
from specctl.errors import SpecctlError
from specctl.exits import ExitCode
from specctl.host.connect import connect
from specctl.host.errors import HostTimeout, Unreachable
from specctl.host.parallel import Outcome, each
from specctl.host.protocol import Host

T = TypeVar("T")
Say = Callable[[str], None]


def on_hosts(
    hosts: Sequence[HostConfig], do: Callable[[Host, HostConfig, Say], T], output: Output
) -> list[Outcome[HostConfig, T]]:
    """Do something on every host at once; one outcome for each, in the order of `hosts`.

    `do` gets the connection, the host's configuration and a way to say what it is doing.
    """
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=output.err,
        transient=True,
        disable=not output.err.is_terminal,
    )
    with bar:
        rows = {config.name: bar.add_task(f"{escape(config.name)}: connecting", total=1) for config in hosts}

        def one(config: HostConfig) -> T:
            def say(text: str) -> None:
                bar.update(rows[config.name], description=escape(f"{config.name}: {text}"))

            host = connect(config)
            try:
                return do(host, config, say)
            finally:
                host.close()
                bar.update(rows[config.name], completed=1, visible=False)

        return each(hosts, one)


def exit_code(errors: Sequence[SpecctlError], *, ok: bool, done: bool = False) -> ExitCode:
    """Unreachable before anything else; then the one code that all errors share, or FAILED.

    `done`: something was done on some host, so that USAGE, which denies that, is no answer. Nor is it where
    something else is not `ok`.
    """
    if any(isinstance(error, (Unreachable, HostTimeout)) for error in errors):
        return ExitCode.UNREACHABLE
    codes = {error.exit_code for error in errors}
    if codes:
        code = codes.pop() if len(codes) == 1 else ExitCode.FAILED
        return ExitCode.FAILED if (done or not ok) and code is ExitCode.USAGE else code
    return ExitCode.OK if ok else ExitCode.FAILED
