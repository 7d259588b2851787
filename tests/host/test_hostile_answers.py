"""Whatever a host answers, it is an answer or an error of ours: no crash, and bounded memory and time."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from config.builders import make_host
from doctor.builders import make_needs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specctl.base.store import BaseStore
from specctl.doctor.examine import examine
from specctl.errors import SpecctlError
from specctl.host import programs
from specctl.host.call import Call
from specctl.host.capture import KEPT, Capture
from specctl.host.commands import CommandHost
from specctl.host.facts import Facts, parse
from specctl.host.local import LocalHost
from specctl.host.protocol import Result, tail_of
from specctl.host.shape import misfit
from specctl.service.account import read_account
from specctl.service.state import read_state

many = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["/", "root", "3.11", "h1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


class Answering(CommandHost):
    """A host whose every command ends with this output and code."""

    def __init__(self, stdout: bytes, code: int = 0, stderr: bytes = b"") -> None:
        super().__init__("h1")
        self.stdout, self.code, self.stderr = stdout, code, stderr

    @property
    def is_root(self) -> bool:
        return False

    def close(self) -> None:
        return

    def _execute(self, call: Call) -> Result:
        out, err = Capture(call.keep), Capture(call.keep)
        out.feed(self.stdout)
        err.feed(self.stderr)
        return Result(call.shown, self.code, out.value(), err.value(), 0.0)


def error_of(call: Callable[[], object]) -> SpecctlError | None:
    try:
        call()
    except SpecctlError as error:
        return error
    return None


def survives(host: Answering, local: Path) -> None:
    """Each call gives an answer, or an error that can be shown."""
    calls = (
        lambda: host.script("", {}),
        lambda: host.script("", {}, sudo=True),
        lambda: host.read("/etc/x"),
        lambda: host.write(b"x", "/etc/x"),
        lambda: host.put(local, "/etc/x", sha256="0" * 64),
        lambda: host.run(["x"], sudo=True),
        lambda: read_account(host),
        lambda: read_state(host, "/opt", "main"),
    )
    for call in calls:
        error = error_of(call)
        if error is not None:
            str(error.as_dict()).encode("utf-8", "strict")
            assert len(error.message) < 3_000


@given(
    stdout=st.one_of(
        st.binary(max_size=200),
        json_values.map(lambda value: b"motd\n" + json.dumps(value).encode() + b"\nlogout\n"),
        st.dictionaries(st.sampled_from(["data", "same", "state", "errno", "uid", "name"]), json_values).map(
            lambda value: json.dumps(value).encode()
        ),
    ),
    code=st.sampled_from([0, 1, 2, 126, 127, 255]),
    stderr=st.binary(max_size=60),
)
@many
def test_any_output_of_a_command_is_survived(stdout: bytes, code: int, stderr: bytes) -> None:
    survives(Answering(stdout, code, stderr), Path(__file__))


HUGE = {
    "line feeds": b"\n" * KEPT,
    "blanks": b" " * KEPT,
    "one line": b"a" * KEPT,
    "brackets": b"[" * KEPT,
    "a number": b"9" * KEPT,
    "many documents": b"{}x\n" * (KEPT // 4),
    "zeros": bytes(KEPT),
}


@pytest.mark.parametrize("output", HUGE.values(), ids=HUGE)
def test_a_host_that_floods_costs_a_few_copies_of_what_is_kept(output: bytes) -> None:
    tracemalloc.start()
    try:
        survives(Answering(output, stderr=output), Path(__file__))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * KEPT


def test_noise_before_and_after_the_answer_is_passed_over() -> None:
    noise = b"Welcome!\n\xff\xfe{not json}\n"
    assert Answering(noise + b'{"a": 1}\n' + noise).script("", {}) == {"a": 1}


def test_the_end_of_an_output_is_short_whatever_it_is() -> None:
    assert len(tail_of(b"x" * (1 << 20))) <= 8 << 10
    assert tail_of(b"a\n" * 100) == "\n".join("a" * 15)


# -- facts


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """What the program answers on this machine."""
    params = {
        "root": "/opt/specctl",
        "python": ["python3"],
        "sudo": False,
        "models": ["/models/target"],
        "temporary": ["/tmp"],
    }
    raw = LocalHost("h1").script(programs.source("facts"), params)
    assert isinstance(raw, dict)
    raw["gpus"] = [
        {
            "index": "0",
            "name": "H200",
            "memory.total": "143771",
            "memory.used": "4",
            "driver_version": "570.1",
            "compute_cap": "9.0",
        }
    ]
    return raw


def paths(value: object, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [at]
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        found += paths(child, (*at, key))
    return found


@given(data=st.data())
@settings(many, max_examples=300)
def test_facts_with_any_part_replaced_are_typed_facts_or_an_error(
    real: dict[str, Any], data: st.DataObject
) -> None:
    raw: Any = copy.deepcopy(real)
    place = data.draw(st.sampled_from(paths(raw)[1:]))
    inside = raw
    for key in place[:-1]:
        inside = inside[key]
    if data.draw(st.booleans()):
        inside[place[-1]] = data.draw(json_values)
    else:
        del inside[place[-1]]
    found: list[Facts] = []
    error = error_of(lambda: found.append(parse("h1", raw, asked=0.0, answered=0.0)))
    assert error.code == "no-facts" if error else misfit(found[0], Facts) is None


BASE = BaseStore.discover(None).get("0.5.9")


@given(data=st.data())
@many
def test_doctor_judges_any_facts_and_any_answer_to_its_other_questions(
    real: dict[str, Any], data: st.DataObject
) -> None:
    raw: Any = copy.deepcopy(real)
    for name in data.draw(st.lists(st.sampled_from(sorted(raw)), max_size=3)):
        raw[name] = data.draw(json_values)

    class Odd(Answering):
        """Facts of its own, and something else for every other question."""

        def script(self, source: str, params: Mapping[str, object], **_: Any) -> object:
            return raw if source == programs.source("facts") else data.draw(json_values)

    host = Odd(data.draw(st.binary(max_size=40)))
    report = examine(host, make_host("h1", root="/opt/specctl"), BASE, make_needs())
    assert report.checks


# -- types


@pytest.mark.parametrize(
    ("value", "wanted", "told"),
    [
        (1, int, None),
        (True, int, "is a bool"),
        (1, float, None),
        ("1", int, "of type str"),
        (None, int | None, None),
        ("x", int | None, "of type str"),
        ((1, 2), tuple[int, ...], None),
        ((1, "2"), tuple[int, ...], "[1] is of type str"),
        ([1], tuple[int, ...], "of type list"),
        ({"a": 1}, Mapping[str, int], None),
        ({"a": "b"}, Mapping[str, int], "['a'] is of type str"),
        ({"a": {"b": []}}, Mapping[str, Any], None),
    ],
)
def test_what_fits_a_type(value: object, wanted: Any, told: str | None) -> None:
    found = misfit(value, wanted, "it")
    assert (found is None) if told is None else told in str(found)
