"""Both workers, both algorithms, good and useless drafts, with and without radix cache, under the full load.

Each configuration runs the load once on a real server; each test looks at one promise.
"""

from __future__ import annotations

import pytest

from . import acceptance, rule
from .cases import LOAD, MATRIX, RESUME, RESUME_STEPS, THRESHOLD, WORKERS, never_off, sliced
from .plugin import Rig
from .run import LEAK, differing
from .server import Spec

pytestmark = pytest.mark.rig
every_configuration = pytest.mark.parametrize("spec", sliced(MATRIX))


@every_configuration
def test_the_load_is_what_the_other_tests_need(rig: Rig, spec: Spec) -> None:
    run = rig.run(spec, LOAD)
    assert run.switches >= 20, "the batch must cross the threshold again and again"
    assert run.longest_off >= 150, "and stay above it for a long time"
    assert len(run.answers) >= 24
    assert len({len(answer.tokens) for answer in run.answers.values()}) > 10, "lengths must be mixed"


@every_configuration
def test_text_is_the_plain_servers_token_by_token(rig: Rig, spec: Spec) -> None:
    assert not differing(rig.run(spec, LOAD).texts, rig.reference(LOAD))


@every_configuration
def test_every_kv_slot_and_request_row_comes_back(rig: Rig, spec: Spec) -> None:
    run = rig.run(spec, LOAD)  # raises when SGLang's own idle check finds a leak
    before, idle, after = run.pool_before, run.pool_idle, run.pool_flushed
    assert (after.free, after.rows) == (before.free, before.rows)
    assert idle.free + idle.evictable == idle.total
    assert LEAK not in run.log
    assert "Traceback" not in run.log


@every_configuration
def test_speculation_follows_the_two_thresholds_and_the_dwell(rig: Rig, spec: Spec) -> None:
    steps = rig.run(spec, LOAD).steps
    batches = [step["batch"] for step in steps]
    assert [step["on"] for step in steps] == rule.follow(batches, THRESHOLD, RESUME, RESUME_STEPS)


@every_configuration
def test_reported_state_is_what_really_happened(rig: Rig, spec: Spec) -> None:
    run = rig.run(spec, LOAD)
    assert run.state is not None
    rows = [gained for step in run.steps for _, _, gained in step["rows"]]
    assert run.state["worker"] == WORKERS[spec.worker]
    assert run.state["switches"] == run.switches
    assert run.state["on_steps"] == sum(step["on"] for step in run.steps)
    assert run.state["off_steps"] == sum(not step["on"] for step in run.steps)
    assert run.state["accept_length_on"] == pytest.approx(sum(rows) / len(rows), rel=0.02)
    assert run.state["state"] == "on"


@every_configuration
def test_the_marker_names_the_worker_that_ran_and_the_values_in_use(rig: Rig, spec: Spec) -> None:
    (marker,) = rig.run(spec, LOAD).markers
    expected = {
        "worker": WORKERS[spec.worker],
        "algorithm": spec.algorithm,
        "threshold": str(THRESHOLD),
        "resume": str(RESUME),
        "resume_steps": str(RESUME_STEPS),
        "draft_sync": "lazy",
        "tp_rank": "0",
        "tp_size": "1",
    }
    assert {name: marker.get(name) for name in expected} == expected


@every_configuration
def test_accepted_length_of_a_request_never_exceeds_what_a_step_can_accept(rig: Rig, spec: Spec) -> None:
    for rid, answer in rig.run(spec, LOAD).answers.items():
        if steps := answer.meta.get("spec_verify_ct"):
            # the first token comes from the prefill, so one token more than the steps gave
            assert answer.meta["spec_accept_length"] <= 4 + 1 / steps + 1e-6, rid


@pytest.mark.parametrize("spec", sliced([spec for spec in MATRIX if spec.draft == "good"]))
class TestAcceptanceAfterComingBack:
    def test_is_at_least_97_percent_of_never_having_been_off(self, rig: Rig, spec: Spec) -> None:
        run, never = rig.run(spec, LOAD), rig.run(never_off(spec), LOAD)
        result = acceptance.compare(run.steps, never.steps)
        assert result.matched >= 80, "too few steps start at the same place in both runs"
        assert result.at_least(0.97), result

    def test_is_not_lower_right_after_the_switch(self, rig: Rig, spec: Spec) -> None:
        run, never = rig.run(spec, LOAD), rig.run(never_off(spec), LOAD)
        result = acceptance.compare(run.steps, never.steps, since=range(3))
        assert result.matched >= 15
        assert result.at_least(0.97), result

    def test_holds_for_prefixes_cached_while_off(self, rig: Rig, spec: Spec) -> None:
        run, never = rig.run(spec, LOAD), rig.run(never_off(spec), LOAD)
        result = acceptance.compare(run.steps, never.steps, prefix="again-")
        assert result.matched >= 20
        assert result.at_least(0.97), result
