"""The command group: global options, lazily loaded verbs, and where errors become exit codes."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import click

from specctl import __version__
from specctl.cli.output import Output
from specctl.cli.usage import HELP_ASKED, usage_error
from specctl.cli.waiting import show_waiting
from specctl.config.problems import nearest
from specctl.errors import SpecctlError, UsageError, internal_error
from specctl.exits import ExitCode

# verb -> (module, attribute); loaded when asked for, so that `--help` and completion stay quick
COMMANDS: dict[str, tuple[str, str]] = {
    "base": ("specctl.cli.base", "base"),
    "overlay": ("specctl.cli.overlay", "overlay"),
    "build": ("specctl.cli.build", "build"),
    "route": ("specctl.cli.route", "route"),
    "hosts": ("specctl.cli.hosts", "hosts"),
    "sudoers": ("specctl.cli.sudoers", "sudoers"),
    "doctor": ("specctl.cli.doctor", "doctor"),
    "plan": ("specctl.cli.plan", "plan"),
    "diff": ("specctl.cli.plan", "diff"),
    "deploy": ("specctl.cli.deploy", "deploy"),
    "verify": ("specctl.cli.verify", "verify"),
    "rollback": ("specctl.cli.rollback", "rollback"),
    "tune": ("specctl.cli.tune", "tune"),
    "threshold": ("specctl.cli.threshold", "threshold"),
    "watch": ("specctl.cli.watch", "watch"),
    "status": ("specctl.cli.status", "status"),
    "history": ("specctl.cli.status", "history"),
    "logs": ("specctl.cli.logs", "logs"),
    "start": ("specctl.cli.service", "start"),
    "stop": ("specctl.cli.service", "stop"),
    "restart": ("specctl.cli.service", "restart"),
    "unlock": ("specctl.cli.locks", "unlock"),
    "prune": ("specctl.cli.prune", "prune"),
    "completion": ("specctl.cli.completion", "completion"),
}


class LazyGroup(click.Group):
    """Imports a verb's module only when that verb is used or listed with its help text."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in COMMANDS or args[0].startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = nearest(args[0], COMMANDS)
        raise UsageError(
            f"No such command {args[0]!r}.",
            context={"usage": "specctl [OPTIONS] COMMAND [ARGS]..."},
            hint=f"did you mean {near}?" if near else "specctl --help shows what there is",
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


_EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {int(code):3} {code.meaning}" for code in ExitCode)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(__version__, prog_name="specctl")
@click.option("--color/--no-color", default=None, help="Force colour on or off (NO_COLOR is honoured).")
@click.pass_context
def cli(ctx: click.Context, color: bool | None) -> None:
    """Build, deploy and prove an SGLang that switches speculative decoding off under load."""
    ctx.obj = {"color": color}


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


def output_of(ctx: click.Context, as_json: bool = False) -> Output:
    """The Output of this invocation; every verb gets its streams from here."""
    output = Output.create(as_json=as_json, color=(ctx.find_root().obj or {}).get("color"))
    show_waiting(output)
    return output


def _output(args: list[str]) -> Output:
    """The Output for an error, also for one of a command line that could not be taken apart."""
    own = args[: args.index("--")] if "--" in args else args
    colors = [word == "--color" for word in own if word in ("--color", "--no-color")]
    return Output.create(as_json="--json" in own, color=colors[-1] if colors else None)


def main(argv: list[str] | None = None) -> None:
    """Entry point: run the command line and exit with one of `ExitCode`."""
    args = sys.argv[1:] if argv is None else argv
    try:
        code = cli.main(args=args, prog_name="specctl", standalone_mode=False)
    except click.exceptions.Exit as exc:
        code = exc.exit_code
    except HELP_ASKED as exc:
        exc.show()
        code = int(ExitCode.USAGE)
    except click.ClickException as exc:
        _output(args).error(usage_error(exc))
        code = int(ExitCode.USAGE)
    except (KeyboardInterrupt, click.exceptions.Abort):
        click.echo("interrupted", err=True)
        code = int(ExitCode.INTERRUPTED)
    except SpecctlError as exc:
        _output(args).error(exc)
        code = int(exc.exit_code)
    except Exception as exc:
        if os.environ.get("SPECCTL_TRACEBACK"):
            traceback.print_exc()
        _output(args).error(internal_error(exc))
        code = int(ExitCode.FAILED)
    sys.exit(code if isinstance(code, int) else int(ExitCode.OK))
