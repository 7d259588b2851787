"""Many hosts at once: batches, canaries, limits of failure, results for all, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.errors import SpecctlError, UsageError
from specctl.exits import ExitCode
from specctl.release.fleet import Fleet, batches, parse_max_fail, parse_serial
from specctl.release.result import HostResult, Outcome, overall

# hosts, --serial, --canary, batch sizes
TABLE = [
    (10, "", 0, [10]),
    (10, "3", 0, [3, 3, 3, 1]),
    (10, "25%", 0, [3, 3, 3, 1]),
    (10, "1,5,100%", 0, [1, 5, 4]),
    (10, "1,2", 0, [1, 2, 2, 2, 2, 1]),
    (10, "", 1, [1, 9]),
    (10, "4", 2, [2, 4, 4]),
    (3, "1%", 0, [1, 1, 1]),
    (1, "50%", 0, [1]),
    (3, "10", 0, [3]),
    (2, "", 5, [2]),
    (0, "2", 1, []),
]


@pytest.mark.parametrize(("hosts", "serial", "canary", "sizes"), TABLE)
def test_batches_of_a_fleet(hosts: int, serial: str, canary: int, sizes: list[int]) -> None:
    assert batches(hosts, parse_serial(serial) if serial else (), canary) == sizes


@given(
    hosts=st.integers(0, 500),
    serial=st.lists(
        st.one_of(st.integers(1, 600).map(str), st.integers(1, 100).map("{}%".format)), max_size=4
    ),
    canary=st.integers(0, 10),
)
def test_batches_hold_every_host_once_and_are_never_empty(hosts: int, serial: list[str], canary: int) -> None:
    sizes = batches(hosts, serial, canary)
    assert sum(sizes) == hosts
    assert all(size > 0 for size in sizes)


@pytest.mark.parametrize("text", ["0", "-1", "x", "1,,2", "101%", "", "1.5"])
def test_a_batch_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_serial(text)


@pytest.mark.parametrize(
    ("text", "hosts", "number"), [("0", 9, 0), ("2", 9, 2), ("10%", 25, 2), ("100%", 3, 3)]
)
def test_how_many_may_fail(text: str, hosts: int, number: int) -> None:
    assert parse_max_fail(text, hosts) == number


@pytest.mark.parametrize("text", ["x", "-1", "200%"])
def test_a_limit_of_failures_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_max_fail(text, 10)


def run(outcomes: str, **fleet: object) -> str:
    """One letter a host: o done, f failed, u unreachable, r raises; s in the answer is skipped."""
    words = {"o": Outcome.DONE, "f": Outcome.FAILED, "u": Outcome.UNREACHABLE}

    def work(item: tuple[int, str]) -> HostResult:
        if item[1] == "r":
            raise RuntimeError("a defect")
        return HostResult(f"h{item[0]}", words[item[1]])

    results = Fleet(**fleet).run(list(enumerate(outcomes)), lambda i: f"h{i[0]}", work)  # type: ignore[arg-type]
    assert [r.host for r in results] == [f"h{n}" for n in range(len(outcomes))]
    letters = {Outcome.DONE: "o", Outcome.FAILED: "f", Outcome.UNREACHABLE: "u", Outcome.SKIPPED: "s"}
    return "".join(letters[r.outcome] for r in results)


@pytest.mark.parametrize(
    ("outcomes", "fleet", "seen"),
    [
        ("ofo", {}, "ofo"),  # 1 of 3 fails: 3 results
        ("oro", {}, "ofo"),  # also when it fails in a way that nobody thought of
        ("ofoo", {"serial": ("2",)}, "ofss"),
        ("uooo", {"serial": ("1",)}, "usss"),  # unreachable counts as failed
        ("uooo", {"serial": ("1",), "max_fail": 1}, "uooo"),
        ("ufoo", {"serial": ("1",), "max_fail": 1}, "ufss"),
        ("fooo", {"canary": 1, "max_fail": 3}, "fsss"),  # a canary may not fail, whatever the limit
        ("oooo", {"canary": 1}, "oooo"),
    ],
)
def test_failures_stop_the_next_batch_and_hide_no_result(
    outcomes: str, fleet: dict[str, object], seen: str
) -> None:
    assert run(outcomes, **fleet) == seen


def test_a_slow_host_holds_no_other_host_of_its_batch() -> None:
    release = threading.Event()
    done: list[str] = []

    def work(name: str) -> HostResult:
        if name == "slow":
            assert release.wait(30)
        done.append(name)
        if len(done) == 5:
            release.set()
        return HostResult(name, Outcome.DONE)

    Fleet().run(["slow", "a", "b", "c", "d", "e"], str, work)
    assert done[-1] == "slow"


def test_ctrl_c_ends_what_runs_and_begins_nothing_new() -> None:
    fleet = Fleet(serial=("2",))
    told: list[int] = []
    fleet.on_interrupt = told.append

    def work(name: str) -> HostResult:
        if name == "h1":
            os.kill(os.getpid(), signal.SIGINT)
        assert fleet.stop.wait(30)
        return HostResult(name, Outcome.INTERRUPTED)

    results = fleet.run(["h1", "h2", "h3"], str, work)
    assert told == [1]
    assert [r.outcome for r in results] == [Outcome.INTERRUPTED] * 3
    assert overall(results) is ExitCode.INTERRUPTED
    assert "not touched" in results[2].state


def test_200_hosts_are_as_quick_as_their_slowest_batch_and_leave_no_memory_behind() -> None:
    def work(name: int) -> HostResult:
        time.sleep(0.01)
        bytearray(1 << 20)
        return HostResult(str(name), Outcome.DONE)

    widest = 0
    running = 0
    guard = threading.Lock()

    def counted(name: int) -> HostResult:
        nonlocal running, widest
        with guard:
            running += 1
            widest = max(widest, running)
        try:
            return work(name)
        finally:
            with guard:
                running -= 1

    tracemalloc.start()
    try:
        results = Fleet(serial=("50",)).run(range(200), str, counted)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(results) == 200
    assert widest > 10  # they do run side by side
    assert peak < 80 << 20  # one batch's worth, not all hosts'


# worst first
ORDER = [
    (Outcome.DOWN, ExitCode.DOWN),
    (Outcome.INTERRUPTED, ExitCode.INTERRUPTED),
    (Outcome.ROLLED_BACK, ExitCode.ROLLED_BACK),
    (Outcome.FAILED, ExitCode.FAILED),
    (Outcome.LOCKED, ExitCode.LOCKED),
    (Outcome.UNREACHABLE, ExitCode.UNREACHABLE),
]


@pytest.mark.parametrize("position", range(len(ORDER)))
def test_the_exit_code_is_that_of_the_worst_host(position: int) -> None:
    results = [HostResult(str(n), outcome) for n, (outcome, _) in enumerate(ORDER[position:])]
    assert overall([*results, HostResult("fine", Outcome.DONE)]) is ORDER[position][1]


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ((), ExitCode.USAGE),
        ((Outcome.UNCHANGED, Outcome.SKIPPED), ExitCode.USAGE),
        ((Outcome.DONE,), ExitCode.FAILED),
        ((Outcome.UNREACHABLE,), ExitCode.UNREACHABLE),
    ],
)
def test_a_refusal_is_wrong_usage_only_where_nothing_was_done_at_all(
    others: tuple[Outcome, ...], code: ExitCode
) -> None:
    assert overall(HostResult(str(n), o) for n, o in enumerate((Outcome.REFUSED, *others))) is code


def test_nothing_to_do_anywhere_is_success() -> None:
    assert overall([HostResult("a", Outcome.UNCHANGED), HostResult("b", Outcome.DONE)]) is ExitCode.OK
    assert overall([]) is ExitCode.OK


def test_an_unexpected_error_names_its_host() -> None:
    def work(name: str) -> HostResult:
        raise ValueError("odd")

    (result,) = Fleet().run(["h1"], str, work)
    assert isinstance(result.error, SpecctlError)
    assert result.error.context["host"] == "h1"
    assert "odd" in result.error.message
