"""200 hosts, some slow, dead or flaky: nobody waits for them, memory stays flat, and people can read it."""

from __future__ import annotations

import io
import os
import re
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from config.builders import make_server
from rich.console import Console
from standin.build import make_standin_distribution

from specctl.cli import release_run
from specctl.cli.output import Output
from specctl.cli.release_run import Command
from specctl.config.model import Timers
from specctl.exits import ExitCode
from specctl.release.fleet import WIDEST
from specctl.release.lastrun import LastRun
from specctl.release.makers import deploy_maker
from specctl.release.result import HostResult
from specctl.release.source import SourceFolder

from .simulation import SimFleet, SimRun, Temper, sim_run

SERVER = make_server(timers=Timers(start_s=300.0, hold_s=30.0, stop_s=60.0))
UP = "\x1b[1A\x1b[2K"  # what a terminal is told for each line that is drawn again
ALONE_S = 61.3  # what a good host takes, most of it until its server is healthy and has held


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about what a crash leaves on a disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "sync", lambda: None)


def mixed(number: int, output: int = 0) -> Temper:
    """Of 20 hosts one is dead, one slow, one flaky, one broken, one dies, one hangs, one talks nonsense."""
    return {
        3: Temper(dead=True),
        7: Temper(trip_s=2.0, start_s=200.0, output=output),
        11: Temper(loses=40, output=output),
        13: Temper(broken=True, output=output),
        15: Temper(dies_at=30, output=output),
        16: Temper(hangs_at=25, output=output),
        17: Temper(babbles=True, output=output),
    }.get(number % 20, Temper(output=output))


class Site:
    """One deploy to a simulated fleet, and what came of it."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        hosts: int,
        *,
        output: int = 0,
        tty: bool = False,
        **settings: object,
    ) -> None:
        make_standin_distribution(folder / "dist")
        tempers = {f"gpu-{n:03}": mixed(n, output) for n in range(hosts)}
        self.fleet = SimFleet(folder / "hosts", SERVER, tempers)
        monkeypatch.setattr(release_run, "each", self.fleet.each)
        self.out, self.err = io.StringIO(), io.StringIO()
        self.run: SimRun = sim_run(self.fleet.clock, max_fail=hosts, **settings)
        ports = self.fleet.ports()
        err = Console(file=self.err, width=100, height=30, force_terminal=tty, highlight=False)
        self.command = Command(
            name="deploy",
            what="deploy 1",
            output=Output(Console(file=self.out, width=140), err),
            hosts=self.fleet.configs(),
            make=deploy_maker(ports, SourceFolder(folder / "dist")),
            ports=ports,
            fleet=self.run,
            yes=True,
            record=Kept(folder),
        )
        self.folder = folder

    @property
    def results(self) -> list[HostResult]:
        return KEPT[self.folder]

    def deploy(self) -> ExitCode:
        return self.command.run()


class Kept(LastRun):
    """Keeps the results instead of writing them down."""

    def write(self, at: str, results: Sequence[HostResult]) -> None:
        KEPT[self.path] = list(results)


KEPT: dict[Path, list[HostResult]] = {}


def outcomes(site: Site) -> dict[int, set[str]]:
    """Kind of host (see `mixed`) -> what became of those."""
    seen: dict[int, set[str]] = {}
    for result in site.results:
        seen.setdefault(int(result.host[4:]) % 20, set()).add(result.outcome.value)
    return seen


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A deploy to 200 hosts in batches of 50, in a pipe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(os, "sync", lambda: None)
        site = Site(tmp_path_factory.mktemp("big"), patch, 200, serial=("25%",))
        site.code = site.deploy()  # type: ignore[attr-defined]
        yield site


def test_each_of_200_hosts_ends_as_it_alone_deserves(big: Site) -> None:
    expected = {n: {"done"} for n in range(20)}
    expected |= {3: {"unreachable"}, 13: {"failed"}, 15: {"unreachable"}, 16: {"failed"}, 17: {"failed"}}
    assert outcomes(big) == expected
    assert big.code is ExitCode.FAILED  # type: ignore[attr-defined]
    assert len(big.results) == 200


def test_dead_slow_and_hanging_hosts_hold_nobody_else(big: Site) -> None:
    good = [r.seconds for r in big.results if int(r.host[4:]) % 20 in (0, 1, 2, 19)]
    assert max(good) == pytest.approx(ALONE_S, abs=0.2)


def test_the_fleet_takes_as_long_as_the_slowest_host_of_each_batch(big: Site) -> None:
    seconds = {r.host: r.seconds for r in big.results}
    assert [len(names) for _, names in big.run.batches] == [50, 50, 50, 50]
    for took, names in big.run.batches:
        assert took == pytest.approx(max(seconds[n] for n in names), abs=0.5)
    planning = big.fleet.clock.monotonic() - sum(took for took, _ in big.run.batches)
    assert planning < 15  # one connection timeout of 10 s, not ten of them
    assert big.run.threads <= WIDEST + 8


def test_no_host_is_left_locked_but_those_that_were_lost(big: Site) -> None:
    locked = [n for n, h in big.fleet.hosts.items() if (h.folder / "root" / "lock").exists()]
    assert {int(n[4:]) % 20 for n in locked} == {15}  # they died: their promise has to run out


def test_a_person_can_read_what_became_of_200_hosts(big: Site) -> None:
    out, err = big.out.getvalue(), big.err.getvalue()
    assert "200 hosts: 150 done, 30 failed, 20 unreachable" in out
    assert len(out.splitlines()) < 40
    assert "gpu-[000:002]" in out.replace("\n", "")
    assert all(len(line) <= 140 for line in out.splitlines())
    told = err.count("\nerror [")
    assert 4 <= told <= 6  # one for each thing that went wrong, not for each host
    assert "of 180 hosts" in err  # how far it is
    assert len(err.splitlines()) < 200 + 40 + 60  # a line for each host, for each failed step, and the errors


def test_what_a_host_says_in_the_wrong_shape_is_told_of_that_host(big: Site) -> None:
    error = next(r.error for r in big.results if r.host == "gpu-017")
    assert error is not None
    assert error.code == "no-state"


def test_a_terminal_of_30_lines_shows_the_hosts_at_work_and_how_many_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, monkeypatch, 40, tty=True)
    site.deploy()
    shown = site.err.getvalue()
    assert "all hosts" in shown
    rows = [len(up) // len(UP) + 1 for up in re.findall(f"(?:{re.escape(UP)})+", shown)]
    assert 10 < max(rows) < 30  # all that fit, and no more


def memory(folder: Path, monkeypatch: pytest.MonkeyPatch, hosts: int, batch: int) -> tuple[int, int]:
    """Bytes that a deploy to loud hosts holds at its end and at most; every other host fails."""
    site = Site(folder, monkeypatch, hosts, output=200_000, serial=(str(batch),))
    for host in list(site.fleet.hosts.values())[::2]:
        host.temper = Temper(broken=True, output=200_000)
    tracemalloc.start()
    try:
        site.deploy()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_what_all_hosts_have_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, _ = memory(tmp_path / "few", monkeypatch, 15, 5)
    many, _ = memory(tmp_path / "many", monkeypatch, 40, 5)
    assert many - few < 25 * 80_000  # plan and result of each host; the end of its log alone is 160 KB


@pytest.mark.slow
def test_memory_is_flat_from_100_to_200_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = {n: memory(tmp_path / str(n), monkeypatch, n, 20)[1] for n in (20, 100, 200)}
    print("peak memory, bytes:", peaks)
    assert peaks[200] - peaks[100] < 100 * 40_000
    assert peaks[200] < 24 << 20
