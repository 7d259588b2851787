"""The end of `specctl tune`: the inventory's difference, a question, and the roll-out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from specctl.cli.output import Output
from specctl.tune.errors import TuneError
from specctl.tune.inventory_edit import edit_threshold, inventory_files
from specctl.tune.result import Result
from specctl.tune.rollout import Changed, Rollout, can_restart
from specctl.tune.tuning import Tuning
from specctl.tune.values import Values


def apply(tuning: Tuning, result: Result, inventory: Path, output: Output, *, yes: bool) -> Changed | None:
    """Show the inventory's difference, ask, write it, roll it out. None: nothing to do, or not wanted."""
    values = result.proposal.values
    edit = edit_threshold(inventory_files(inventory), result.host, result.server, values, environ=os.environ)
    if edit is None and result.before.agrees(values):
        output.note("the server and the inventory have these values already")
        return None
    if edit is not None:
        output.note(edit.diff.rstrip())
        if edit.also:
            output.note(f"the same lines are for {', '.join(edit.also)}: their next deploy changes too")
    if not yes:
        if not sys.stdin.isatty() or output.as_json:
            output.note(
                "not applied: there is no terminal to ask on; give --yes, or --no-apply to be asked nothing"
            )
            return None
        if not click.confirm(f"write the inventory and set {values} live?", err=True):
            return None
    if edit is not None:
        edit.write()
    done = _roll_out(tuning, values, output, yes=yes)
    if done is not None:
        output.note(f"{done.server} on {done.host}: {done.before} -> {done.now}, {done.words}")
    return done


def _roll_out(tuning: Tuning, values: Values, output: Output, *, yes: bool) -> Changed | None:
    """Live; where the server does not take it, by a restart. None: no restart was wanted."""
    rollout = Rollout(tuning.host, tuning.config, tuning.server, tuning.service, tuning.say)
    try:
        return rollout.live(values)
    except TuneError as exc:
        if not can_restart(exc):
            raise
        output.note(exc.message)
    name = tuning.server.name
    if not yes and not click.confirm(f"restart {name} with {values} instead?", err=True):
        output.note(f"{name} was left as it is; the next deploy from this inventory brings {values}")
        return None
    return rollout.restart(values)
