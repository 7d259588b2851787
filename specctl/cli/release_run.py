"""What deploy, rollback and prune do alike: plan everywhere, ask, run in batches, record, show."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from specctl.cli.document import document
from specctl.cli.output import Output
from specctl.cli.release_progress import StepProgress
from specctl.cli.release_view import show_errors, show_plans, show_results
from specctl.config.model import HostConfig
from specctl.errors import SpecctlError, UsageError
from specctl.exits import ExitCode
from specctl.host.parallel import each
from specctl.release.clock import stamp
from specctl.release.engine import Engine, Make, Ports, failed, unchanged
from specctl.release.fleet import Fleet
from specctl.release.lastrun import LastRun
from specctl.release.plan import Plan
from specctl.release.result import HostResult, overall
from specctl.release.state import LockInfo
from specctl.release.words import counted


@dataclass
class Command:
    """One invocation of a verb that changes hosts."""

    name: str  # deploy | rollback | prune
    what: str  # for locks: what it is for
    output: Output
    hosts: Sequence[HostConfig]
    make: Make
    ports: Ports
    fleet: Fleet = field(default_factory=Fleet)
    yes: bool = False
    dry_run: bool = False
    record: LastRun | None = None
    more: dict[str, Any] = field(default_factory=dict)  # into the JSON document

    def run(self) -> ExitCode:
        """Plan, ask, do, show."""
        progress = StepProgress(self.output, self.ports.clock.monotonic)
        engine = Engine(self.ports, self.fleet.stop, progress.step, progress.detail, self._tell_broken_lock)
        plans, errors = gather_plans(engine, self.hosts, self.make)
        if self.dry_run:
            return show_dry_run(self.output, self.name, list(plans.values()), errors, **self.more)
        todo = {name: plan for name, plan in plans.items() if plan.changes}
        if todo and not self.yes:
            self._ask(list(plans.values()), errors)

        def work(config: HostConfig) -> HostResult:
            if config.name in errors:
                return failed(config.name, errors[config.name])
            plan = plans[config.name]
            if not plan.changes:
                return unchanged(plan)
            seen = None if self.yes else plan.digest
            result = engine.run(config, self.make, command=self.name, what=self.what, seen=seen)
            progress.ended(result)
            return result

        self.fleet.on_interrupt = self._interrupted
        with progress.shown({name: len(plan.actions) for name, plan in todo.items()}):
            results = self.fleet.run(self.hosts, lambda config: config.name, work)
        if self.record is not None:
            self.record.write(stamp(engine.ports.clock), results)
        return show_results(self.output, self.name, results, **self.more)

    def _ask(self, plans: list[Plan], errors: dict[str, SpecctlError]) -> None:
        """Show the plan and ask; without a terminal only --yes will do."""
        if not sys.stdin.isatty() or self.output.as_json:
            raise UsageError(
                f"{self.name} would change {counted(sum(p.changes for p in plans), 'host')}; "
                "there is no terminal to ask on",
                code="needs-yes",
                hint=f"look first: specctl {self.name} --dry-run; then give --yes",
            )
        show_plans(self.output, plans)
        show_errors(self.output, errors)
        if not click.confirm(f"\n{self.name} {counted(sum(p.changes for p in plans), 'host')}?", err=True):
            self.output.note("nothing was changed")
            raise click.exceptions.Exit(int(ExitCode.INTERRUPTED))

    def _interrupted(self, times: int) -> None:
        if times == 1:
            self.output.note(
                "interrupted: ending or undoing what is at hand; once more leaves it to the hosts themselves"
            )
            return
        os._exit(int(ExitCode.INTERRUPTED))

    def _tell_broken_lock(self, host: str, info: LockInfo) -> None:
        self.output.note(f"{host}: took over a dead lock: {info.describe()}")


def gather_plans(
    engine: Engine, hosts: Sequence[HostConfig], make: Make
) -> tuple[dict[str, Plan], dict[str, SpecctlError]]:
    """Every host's plan, or what kept it away; no host waits for another.

    Raises:
        UsageError: something that has nothing to do with a host, so that all would fail alike.
    """
    outcomes = each(list(hosts), lambda config: engine.plan(config, make), width=64)
    plans: dict[str, Plan] = {}
    errors: dict[str, SpecctlError] = {}
    for outcome in outcomes:
        if outcome.value is not None:
            plans[outcome.key.name] = outcome.value
        elif outcome.error is not None:
            errors[outcome.key.name] = outcome.error
    alike = len({(type(e), e.message) for e in errors.values()}) == 1
    first = next(iter(errors.values()), None)
    if isinstance(first, UsageError) and alike and len(errors) == len(hosts):
        raise first
    return plans, errors


def show_dry_run(
    output: Output, command: str, plans: list[Plan], errors: dict[str, SpecctlError], **more: Any
) -> ExitCode:
    """The plans, and 3 when one of them has changes; a host that could not be planned counts more."""
    code = ExitCode.CHANGES if any(p.changes for p in plans) else ExitCode.OK
    if errors:
        code = overall(failed(h, e) for h, e in errors.items())
    if output.as_json:
        found = [p.as_dict() for p in plans]
        output.json(document(code, errors.items(), command=command, **more, hosts=found))
        return code
    show_plans(output, plans)
    show_errors(output, errors)
    return code
