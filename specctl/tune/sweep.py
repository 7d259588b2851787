"""The runs of a sweep, in their order, and what keeps them across an interruption."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from specctl.errors import UsageError
from specctl.tune.errors import LoadFailed
from specctl.tune.load import Load, Run
from specctl.tune.model import Mode, Sample
from specctl.tune.prompts import Workload
from specctl.tune.values import Values

OFF = Values(0, 0, 1)
_STEPS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def default_levels(limit: int) -> tuple[int, ...]:
    """Levels to measure; the last is the largest batch that a threshold can let speculate."""
    most = max(2, limit - 1)
    return (*(s for s in _STEPS if s < most * 0.9), most)


def check_levels(levels: Sequence[int], limit: int) -> tuple[int, ...]:
    """Levels as given, in order, each once.

    Raises:
        UsageError: fewer than two, or one that the server cannot run at once with speculation on.
    """
    found = tuple(sorted(set(levels)))
    if len(found) < 2 or found[0] < 1:
        raise UsageError("a crossover needs at least two levels of 1 or more", code="levels")
    if found[-1] >= limit:
        raise UsageError(
            f"{found[-1]} requests at once cannot be measured: at most {limit} run, "
            f"and a threshold must stay below that",
            code="levels",
            hint=f"give levels up to {limit - 1}, or raise --max-running-requests and deploy",
        )
    return found


def always_on(limit: int) -> Values:
    """Values with which speculation is never switched off, up to `limit` - 1 requests."""
    n = max(1, limit - 1)
    return Values(n, n, 1)


def requests_at(level: int, waves: int) -> int:
    """Requests of one run: several for each place, and never so few that one slow answer is the result."""
    return max(level * waves, 4)


def paired_runs(
    contexts: Iterable[str], levels: Sequence[int], repetitions: int, waves: int
) -> tuple[Run, ...]:
    """On and off one right after the other, whichever is first taking turns, so that a drift hits both."""
    runs: list[Run] = []
    turn = 0
    for repetition in range(repetitions):
        for context in contexts:
            for level in levels:
                modes = (Mode.OFF, Mode.ON) if turn % 2 else (Mode.ON, Mode.OFF)
                turn += 1
                runs += [Run(m, context, level, repetition, requests_at(level, waves)) for m in modes]
    return tuple(runs)


def single_runs(
    mode: Mode, contexts: Iterable[str], levels: Sequence[int], waves: int, repetitions: int = 1
) -> tuple[Run, ...]:
    """Runs of one mode alone: the proposed threshold, or the plain server."""
    return tuple(
        Run(mode, context, level, repetition, requests_at(level, waves))
        for repetition in range(repetitions)
        for context in contexts
        for level in levels
    )


@dataclass
class Record:
    """Samples on the operator's disk, one JSON line each, written as they come."""

    path: Path
    samples: list[Sample] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> Record:
        """What an earlier, interrupted run has left; lines that were cut are left out."""
        record = cls(path)
        if path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    record.samples.append(Sample.from_dict(json.loads(line)))
                except (ValueError, TypeError, KeyError):
                    continue
        return record

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(sample.as_dict()) + "\n")

    def has(self, run: Run) -> bool:
        return any((s.mode.value, s.context, s.level, s.repetition) == run.key for s in self.samples)


def carry_out(
    load: Load,
    runs: Sequence[Run],
    workloads: Mapping[str, Workload],
    values: Callable[[Run], Values | None],
    record: Record,
    progress: Callable[[Run, int], None],
) -> None:
    """Make the runs that the record does not hold yet.

    Args:
        values: what is live during a run; None leaves the server as it is.
        progress: told before each run how many there are left with it.

    Raises:
        LoadFailed: a run failed twice. ThresholdRefused. The server is as it was before.
    """
    numbers = {name: i for i, name in enumerate(workloads)}
    todo = [run for run in runs if not record.has(run)]
    for index, run in enumerate(todo):
        progress(run, len(todo) - index)
        asked = (run, workloads[run.context], numbers[run.context], values(run))
        try:
            sample = load.run(*asked)
        except LoadFailed:  # once more: one failure in an hour of runs must not end the sweep
            progress(run, len(todo) - index)
            sample = load.run(*asked)
        record.add(sample)
