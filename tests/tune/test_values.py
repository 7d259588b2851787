"""Thresholds as numbers, in unit files and in launch commands."""

from __future__ import annotations

import pytest

from specctl.errors import UsageError
from specctl.service.protocol import Unit
from specctl.service.supervisor_conf import render_launcher
from specctl.service.systemd_unit import render_unit
from specctl.tune.values import Values, argv_with, check, values_in

ARGV = ("/r/python", "-m", "sglang.launch_server", "--port", "1", "--x", "a b $c %d")


@pytest.mark.parametrize("values", [Values(4), Values(16, 14, 4), Values(0, 0, 1), Values(7, None, 9)])
def test_what_is_written_into_a_unit_is_what_is_read_back_from_its_file(values: Values) -> None:
    unit = Unit("specctl-main", "d", argv_with(ARGV, values), "/r")
    assert values_in([render_launcher(unit).encode()]) == values
    assert values_in([render_unit(unit, user_manager=False).encode()]) == values


def test_new_values_replace_old_ones_and_nothing_else_moves() -> None:
    old = (*ARGV, "--speculative-disable-batch-threshold=4", "--speculative-resume-steps", "9", "--last")
    assert argv_with(old, Values(8, 6)) == (
        *ARGV,
        *("--speculative-disable-batch-threshold", "8", "--speculative-resume-batch-threshold", "6"),
        "--last",
    )


def test_a_unit_without_a_threshold_has_none() -> None:
    assert values_in([b"ExecStart=/r/python -m sglang.launch_server"]) is None


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (Values(-1), "below 0"),
        (Values(4, 5), "resume 5 is above the threshold 4"),
        (Values(4, 0), "never switch speculation on again"),
        (Values(4, 3, 0), "dwell 0"),
        (Values(48), "at most 48 requests at once"),
    ],
)
def test_a_value_out_of_range_is_refused_before_the_server_is_asked(values: Values, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check(values, 48)


@pytest.mark.parametrize("values", [Values(0), Values(0, 0), Values(47, 1, 1)])
def test_the_ends_of_the_range_are_allowed(values: Values) -> None:
    check(values, 48)
