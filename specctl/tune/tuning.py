"""One server tuned: looked at, measured, concluded. Every way out leaves its thresholds as they were."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from specctl.build.distribution import DIST_JSON
from specctl.config.model import HostConfig, ServerConfig
from specctl.errors import SpecctlError, UsageError
from specctl.evidence.verify import parse_distribution
from specctl.host.protocol import Host
from specctl.release.clock import Clock, Operator, SystemClock, stamp
from specctl.release.lock import HostLock
from specctl.service.protocol import Service, Unit
from specctl.service.unit import server_folder
from specctl.tune.errors import NoSwitch, TuneError
from specctl.tune.kept import kept
from specctl.tune.live import look, need_switch
from specctl.tune.load import SLACK_S, Load, Run
from specctl.tune.locked import locked
from specctl.tune.model import Mode
from specctl.tune.plain import plain_argv
from specctl.tune.prompts import Workload
from specctl.tune.reboot import Reboot
from specctl.tune.result import Result, conclude
from specctl.tune.signals import undisturbed
from specctl.tune.sweep import (
    OFF,
    Record,
    always_on,
    carry_out,
    check_levels,
    default_levels,
    paired_runs,
    requests_at,
    single_runs,
)
from specctl.tune.values import Values

QUIET_S = 2.0  # for which a server must not decode before it is measured


@dataclass(frozen=True)
class Options:
    """What to measure. `levels` empty: chosen by the server's limit."""

    workloads: tuple[Workload, ...]
    levels: tuple[int, ...] = ()
    repetitions: int = 3
    waves: int = 3  # requests of a run for each place
    plain_boot: bool = False  # also restart it once without speculation
    why_not_plain: str = ""  # what a report says when `plain_boot` is not set
    dynamic: bool = True  # also measure with the proposed values
    busy: bool = False  # measure although others use the server
    limit_s: float = 900.0  # of one run


Say = Callable[[str], None]
Tell = Callable[[Run, int], None]  # the run that begins, and how many are left with it


@dataclass
class Tuning:
    """Tunes one server. `record` keeps every sample as it comes."""

    host: Host
    config: HostConfig
    server: ServerConfig
    service: Service
    options: Options
    folder: Path  # on this machine
    say: Say
    tell: Tell
    clock: Clock = field(default_factory=SystemClock)
    before: Values = field(default_factory=lambda: Values(0))
    limit: int = 0
    unit: Unit | None = None  # what a plain server is made from, and what serves again after it
    levels: tuple[int, ...] = ()
    versions: str = ""

    def survey(self) -> None:
        """Look at the server, and settle what will be measured. Changes nothing.

        Raises:
            NoSwitch, TuneError, UsageError: it cannot be measured.
        """
        self.say("looking at the server")
        seen = look(self.host, self.config, self.server)
        self.before = need_switch(seen, self.config.name, self.server.name)
        if seen.limit is None:
            raise NoSwitch(
                f"{self.server.name} on {self.config.name} does not say how many requests it runs at once",
                context={"host": self.config.name},
            )
        self.limit = seen.limit
        if self.options.plain_boot:  # said now, and not after an hour of runs
            self._survey_unit()
        self.levels = check_levels(self.options.levels or default_levels(self.limit), self.limit)
        steps = _steps(seen.state)
        self.clock.sleep(QUIET_S)
        if _steps(look(self.host, self.config, self.server).state) != steps and not self.options.busy:
            raise TuneError(
                f"{self.server.name} on {self.config.name} is serving others at this moment",
                code="server-busy",
                context={"host": self.config.name, "server": self.server.name},
                hint="take it out of its load balancer first, or give --busy and bear the noise",
            )
        path = f"{server_folder(self.config.root, self.server.name)}/current/{DIST_JSON}"
        data = self.host.read(path, sudo=self.config.sudo)
        distribution = parse_distribution(data) if data else None
        self.versions = f"sglang {distribution.version}" if distribution else ""

    def _survey_unit(self) -> None:
        found = kept(self.host, self.config, self.server, self.service)
        if found.unit is None:
            raise TuneError(
                f"no plain server can be started: {found.why}",
                code="no-unit",
                context={"host": self.config.name, "server": self.server.name},
                hint="deploy first, or give --no-plain-boot",
            )
        self.unit = found.unit

    @property
    def load(self) -> Load:
        return Load(self.host, self.config, self.server, self.before, self.options.limit_s)

    @property
    def workloads(self) -> Mapping[str, Workload]:
        return {w.context: w for w in self.options.workloads}

    def runs(self) -> dict[Mode, tuple[Run, ...]]:
        """All runs by kind, in order. ON: on and off in pairs, from which the crossover is found."""
        o, contexts, levels = self.options, self.workloads, self.levels
        dynamic = single_runs(Mode.DYNAMIC, contexts, levels, o.waves) if o.dynamic else ()
        # as many repetitions as off has: the same prompts in the same order, to be compared one by one
        plain = single_runs(Mode.PLAIN, contexts, levels, o.waves, o.repetitions) if o.plain_boot else ()
        return {
            Mode.ON: paired_runs(contexts, levels, o.repetitions, o.waves),
            Mode.DYNAMIC: dynamic,
            Mode.PLAIN: plain,
        }

    def open_record(self) -> Record:
        """The samples so far: none, or those of an interrupted run of the same kind.

        Raises:
            UsageError: the folder holds another server's, or another sweep's.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        about = self._about()
        path = self.folder / "about.json"
        if path.exists() and json.loads(path.read_text(encoding="utf-8")) != about:
            raise UsageError(
                f"{self.folder} holds a sweep of another server, or with other options",
                code="other-sweep",
                hint="name another folder with --out",
            )
        path.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        return Record.open(self.folder / "samples.jsonl")

    def _about(self) -> dict[str, Any]:
        return {
            "host": self.config.name,
            "server": self.server.name,
            "versions": self.versions,
            "limit": self.limit,
            "waves": self.options.waves,
            "workloads": {w.context: w.output_tokens for w in self.options.workloads},
        }

    def measure(self, record: Record) -> Result:
        """All runs that are missing, under the host's lock; then the conclusion.

        Whatever ends it, also Ctrl-C, the load is ended and the thresholds are put back.

        Raises:
            LoadFailed, ThresholdRefused, NotReady, KeyboardInterrupt: with the samples so far in `record`.
        """
        most = max(requests_at(level, self.options.waves) for level in self.levels)
        with self._locked() as lock, self._restored():
            self.load.prepare(self.workloads, most)
            tell = self._leased(lock)
            values = {Mode.OFF: OFF, Mode.ON: always_on(self.limit)}
            paired = self.runs()[Mode.ON]
            carry_out(self.load, paired, self.workloads, lambda run: values[run.mode], record, tell)
            if self.options.dynamic:
                self._dynamic(record, tell)
            if self.options.plain_boot:
                self._plain(record, tell, lock)
        return self.conclude(record)

    def conclude(self, record: Record) -> Result:
        """From the samples so far.

        Raises:
            TuneError: there are too few.
        """
        try:
            return conclude(
                self.config.name,
                self.server.name,
                self.limit,
                record.samples,
                self.before,
                taken_at=stamp(self.clock),
                versions=self.versions,
                why_not_plain=self.options.why_not_plain or "the sweep ended before it",
            )
        except ValueError as exc:
            raise TuneError(f"too few runs for a conclusion: {exc}", code="too-few") from exc

    def _dynamic(self, record: Record, tell: Tell) -> None:
        proposal = self.conclude(record).proposal.values
        carry_out(self.load, self.runs()[Mode.DYNAMIC], self.workloads, lambda _: proposal, record, tell)

    def _plain(self, record: Record, tell: Tell, lock: HostLock) -> None:
        runs = self.runs()[Mode.PLAIN]
        if self.unit is None or all(record.has(run) for run in runs):
            return
        bare = Load(self.host, self.config, self.server, None, self.options.limit_s)
        plain = replace(self.unit, argv=plain_argv(self.unit.argv, self.limit))
        reboot = Reboot(self.host, self.config, self.server, self.service, lock, self.say)
        with reboot.borrowed(self.unit, plain, "without speculation"):
            carry_out(bare, runs, self.workloads, lambda _: None, record, tell)

    @contextmanager
    def _restored(self) -> Iterator[None]:
        failure: BaseException | None = None
        try:
            yield
        except BaseException as exc:
            failure = exc
            raise
        finally:
            with undisturbed():
                self.say("putting the thresholds back")
                self._restore(failure)

    def _restore(self, failure: BaseException | None) -> None:
        try:
            self.load.restore()
        except SpecctlError as exc:
            if isinstance(failure, SpecctlError):
                exc.context = {**exc.context, "after": failure.message, **failure.context}
            raise

    def _locked(self) -> AbstractContextManager[HostLock]:
        what, operator = f"tune {self.server.name}", Operator.here()
        return locked(
            self.host, self.config, what, self._silence_s, operator=operator, clock=self.clock, say=self.say
        )

    @property
    def _silence_s(self) -> float:
        return self.options.limit_s + 2 * SLACK_S

    def _leased(self, lock: HostLock) -> Tell:
        """Renew the lock's promise before each run."""

        def tell(run: Run, left: int) -> None:
            self.tell(run, left)
            lock.renew(f"{run.mode.value} {run.level}", self._silence_s)

        return tell


def _steps(state: Mapping[str, Any] | None) -> tuple[Any, ...]:
    state = state or {}
    return (state.get("on_steps"), state.get("off_steps"))


def levels_from(texts: Sequence[str]) -> tuple[int, ...]:
    """`1,2,4` as numbers.

    Raises:
        UsageError: one is no whole number.
    """
    words = [w.strip() for text in texts for w in text.split(",") if w.strip()]
    bad = [w for w in words if not w.isascii() or not w.isdigit()]
    if bad:
        raise UsageError(f"{bad[0]!r} is no whole number", code="levels", hint="write e.g. 1,2,4,8,16")
    return tuple(int(w) for w in words)
