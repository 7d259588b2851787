"""Options that the verbs of deploy and rollback share."""

from __future__ import annotations

from pathlib import Path

import click

dist_option = click.option(
    "--dist",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="SPECCTL_DIST",
    required=True,
    metavar="DIR",
    help="Folder that `specctl build` made [or $SPECCTL_DIST].",
)
serial_option = click.option(
    "--serial", metavar="N[,N]", help="Hosts at a time: 2, 25%, or a series like 1,5,25% (the last repeats)."
)
canary_option = click.option(
    "--canary",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="First these, and only then the rest.",
)
max_fail_option = click.option(
    "--max-fail",
    default="0",
    show_default=True,
    metavar="N",
    help="Begin no further batch once more hosts than this have failed: 2 or 10%.",
)
resume_option = click.option("--resume", is_flag=True, help="Only the hosts that failed the last time.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show the plan and stop; 3 when it has changes."
)
