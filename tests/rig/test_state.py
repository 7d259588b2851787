"""What an operator sees: /server_info and Prometheus."""

from __future__ import annotations

import re
import time

import pytest

from .cases import LOAD, THRESHOLD, WORKERS, params
from .load import drive
from .plugin import Rig
from .server import Server, Spec

pytestmark = pytest.mark.rig

BOTH = [Spec("v1", "EAGLE3", threshold=THRESHOLD), Spec("v2", "EAGLE", threshold=THRESHOLD)]
METRICS = (
    "off",
    "threshold",
    "resume_threshold",
    "accept_length",
    "switches_total",
    "on_steps_total",
    "off_steps_total",
)


@pytest.mark.parametrize("spec", params(BOTH))
def test_server_info_describes_the_switch_before_anything_was_decoded(rig: Rig, spec: Spec) -> None:
    with rig.serve(spec) as server:
        state = server.dynamic()
    expected = {
        "worker": WORKERS[spec.worker],
        "state": "on",
        "threshold": 5,
        "resume": 4,
        "resume_steps": 4,
        "draft_sync": "lazy",
        "switches": 0,
        "off_steps": 0,
        "decode_graphs": False,
        "flushes": 0,
        "flushed_tokens": 0,
    }
    assert {name: state.get(name) for name in expected} == expected
    assert {"batch", "on_steps", "accept_length_on"} <= state.keys()


def _metrics(server: Server) -> dict[str, float]:
    """name -> value of our metrics, as Prometheus would scrape them."""
    text = server.client.text("/metrics/")
    rows = re.findall(r"^sglang:dynamic_speculation_(\w+)\{[^}]*\} (\S+)$", text, flags=re.MULTILINE)
    assert len({name for name, _ in rows}) == len(rows), "one value for each metric"
    return {name: float(value) for name, value in rows}


@pytest.mark.parametrize("spec", params(BOTH))
def test_prometheus_tells_what_server_info_tells(rig: Rig, spec: Spec) -> None:
    measured = Spec(spec.worker, spec.algorithm, threshold=THRESHOLD, flags=("--enable-metrics",))
    with rig.serve(measured) as server:
        first = _metrics(server)
        assert {name: first.get(name) for name in ("off", "threshold", "resume_threshold")} == {
            "off": 0,
            "threshold": 5,
            "resume_threshold": 4,
        }
        drive(server.client, LOAD)
        server.wait_idle()
        # published with the decode log line, every five steps here: the last steps may not be in yet
        deadline, state = time.monotonic() + 10, server.dynamic()
        while (
            abs(_metrics(server)["off_steps_total"] - state["off_steps"]) > 5 and time.monotonic() < deadline
        ):
            time.sleep(0.2)
        seen = _metrics(server)
        assert set(METRICS) <= seen.keys()
        assert abs(seen["off_steps_total"] - state["off_steps"]) <= 5
        assert abs(seen["on_steps_total"] - state["on_steps"]) <= 5
        assert abs(seen["switches_total"] - state["switches"]) <= 2
        assert seen["accept_length"] == pytest.approx(state["accept_length_on"], rel=0.05)
        assert server.set_state(speculative_disable_batch_threshold=3) == [True]
        changed = _metrics(server)
        assert (changed["threshold"], changed["resume_threshold"]) == (3, 2)


@pytest.mark.parametrize("spec", params(BOTH))
def test_upstreams_own_accept_length_counts_speculative_steps_only(rig: Rig, spec: Spec) -> None:
    result = rig.run(spec, LOAD)
    assert result.state is not None
    assert result.internal["avg_spec_accept_length"] == pytest.approx(
        result.state["accept_length_on"], rel=0.02
    )
    logged = [float(value) for value in re.findall(r"accept len: ([\d.]+)", result.log)]
    assert logged
    assert max(logged) <= 4
    # an interval without a speculative step reads 0, never a number that looks like a useless draft
    assert not [value for value in logged if 0 < value < 1]


def test_without_metrics_enabled_there_are_none(rig: Rig) -> None:
    with rig.serve(BOTH[0]) as server:
        assert "dynamic_speculation" not in _try_metrics(server)


def _try_metrics(server: Server) -> str:
    from .client import Refused

    try:
        return server.client.text("/metrics/")
    except Refused:
        return ""
