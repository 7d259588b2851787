"""`specctl completion`: the script that makes a shell complete specctl's verbs, options and host names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from specctl.cli.main import cli


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: eval "$(specctl completion bash)"                    in ~/.bashrc
    zsh:  eval "$(specctl completion zsh)"                     in ~/.zshrc
    fish: specctl completion fish > ~/.config/fish/completions/specctl.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None  # the three of the choice come with click
    click.echo(complete(cli, {}, "specctl", "_SPECCTL_COMPLETE").source())
