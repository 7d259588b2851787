"""`specctl route`: which worker class a server command line selects, and why."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from specctl.cli.main import json_option, output_of
from specctl.exits import ExitCode


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--base", "base_name", default="0.5.9", show_default=True, help="Base or distribution version.")
@click.option("--bases", type=click.Path(path_type=Path), help="Folder of your own base records.")
@click.option(
    "--env", "assignments", multiple=True, metavar="K=V", help="A variable of the server's environment."
)
@click.option("--this-env", is_flag=True, help="Start from the environment of this process.")
@click.option("--architecture", help="The model's architecture, where its config.json cannot be read here.")
@json_option
@click.argument("server", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def route(
    ctx: click.Context,
    base_name: str,
    bases: Path | None,
    assignments: tuple[str, ...],
    this_env: bool,
    architecture: str | None,
    as_json: bool,
    server: tuple[str, ...],
) -> None:
    """Say which worker class SERVER ARGUMENTS select, and why.

    Put the arguments after `--`, as the server gets them, or paste a whole command line:

        specctl route -- SGLANG_ENABLE_SPEC_V2=1 python -m sglang.launch_server --model-path ...

    Exit code 1: this server would refuse to start.
    """
    from specctl.base.store import BaseStore
    from specctl.errors import UsageError
    from specctl.route.command import split_command
    from specctl.route.predict import predict, read_local

    pasted, arguments = split_command(server)
    if not arguments:
        raise UsageError(
            "no server arguments were given",
            hint="put them after --: specctl route -- --model-path MODEL --speculative-algorithm EAGLE3",
        )
    env = dict(os.environ) if this_env else {}
    env.update(pasted)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--env {assignment!r} is no assignment", hint="write it like --env NAME=VALUE")
        env[name] = value
    found = predict(
        base_name,
        arguments,
        env,
        architecture=architecture,
        read=read_local,
        store=BaseStore.discover(bases),
    )
    out = output_of(ctx, as_json)
    if as_json:
        out.json({**asdict(found), "starts": found.starts})
    else:
        if found.problems:
            out.line("worker: none, the server would refuse to start")
        else:
            out.line(f"worker: {found.worker or 'none'}" + (f" ({found.file})" if found.file else ""))
            out.line(f"overlap scheduler: {'on' if found.overlap else 'off'}")
        for label, texts in (
            ("problem", found.problems),
            ("because", found.reasons),
            ("note", found.warnings),
        ):
            for text in texts:
                out.line(f"{label}: {text}")
        if found.base != base_name:
            out.note(f"judged by the rules of {found.base} and of the overlays that come with this specctl")
    if found.problems:
        ctx.exit(int(ExitCode.FAILED))
