"""Break the overlay on purpose: each check of the other files notices what it is there for.

They test the tests, so all but three of them are among the long ones.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from . import acceptance, rule
from .cases import LOAD as FULL
from .cases import RESUME, RESUME_STEPS, THRESHOLD, never_off, params
from .load import StreamsEnded, make
from .plugin import Rig
from .run import LEAK, differing
from .server import ServerDied, Spec
from .test_draft_cache import stale_positions

pytestmark = pytest.mark.rig

LOAD = make(streams=24, stream_tokens=170, bursts=6, plateau=6, plateau_tokens=60)


def broken(kind: str, worker: str, algorithm: str = "EAGLE") -> Spec:
    return Spec(
        worker,
        algorithm,
        threshold=THRESHOLD,
        hooks=("probe", "draft_kv", "sabotage"),
        env=(("RIG_SABOTAGE", kind),),
    )


@pytest.mark.slow
@pytest.mark.parametrize("spec", params([broken("phantom-slot-v1", "v1"), broken("phantom-slot-v2", "v2")]))
def test_one_slot_lost_in_each_step_ends_the_server_when_it_goes_idle(rig: Rig, spec: Spec) -> None:
    with pytest.raises(ServerDied, match=LEAK):
        rig.run(spec, LOAD)


def test_a_token_whose_slot_is_not_counted_is_noticed(rig: Rig) -> None:
    with pytest.raises(ServerDied, match=LEAK):
        rig.run(broken("uncounted-token", "v1"), LOAD)


@pytest.mark.slow
def test_a_token_that_never_reaches_its_request_changes_the_text_or_ends_the_server(rig: Rig) -> None:
    try:
        result = rig.run(broken("late-token-lost", "v1"), LOAD)
    except ServerDied:
        return
    assert differing(result.texts, rig.reference(LOAD))


@pytest.mark.parametrize("spec", params([broken("no-rebuild", "v1"), broken("no-rebuild", "v2", "EAGLE3")]))
def test_a_skipped_rebuild_shows_in_acceptance_and_in_the_draft_cache_but_not_in_the_text(
    rig: Rig, spec: Spec
) -> None:
    result, never = rig.run(spec, FULL), rig.run(never_off(spec), FULL)
    assert not differing(result.texts, rig.reference(FULL))
    right_after = acceptance.compare(result.steps, never.steps, since=range(3))
    assert right_after.matched >= 10
    assert right_after.ratio < 0.97, right_after
    assert sum(stream["stale"] for stream in stale_positions(rig, spec, FULL).values()) > 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec", params([broken("no-reset-at-prefill", "v1"), broken("no-reset-at-prefill", "v2", "EAGLE3")])
)
def test_pairs_of_an_earlier_request_show_in_the_draft_cache(rig: Rig, spec: Spec) -> None:
    for number in range(
        3
    ):  # not every load has a request that follows another one in the middle of its pairs
        again = replace(spec, env=(*spec.env, ("RIG_TRY", str(number))))
        try:
            found = stale_positions(rig, again, LOAD)
        except ServerDied:
            return  # noticed even earlier
        if sum(stream["stale"] for stream in found.values()) > 0:
            return
    pytest.fail("nothing noticed it")


@pytest.mark.slow
def test_a_wrong_stride_changes_the_text_or_ends_the_server(rig: Rig) -> None:
    try:
        result = rig.run(broken("wrong-stride", "v2"), LOAD)
    except (ServerDied, StreamsEnded):  # bursts that get no tokens outlast the streams
        return
    assert differing(result.texts, rig.reference(LOAD))


@pytest.mark.slow
@pytest.mark.parametrize("spec", params([broken("damaged-kv", "v1"), broken("damaged-kv", "v2", "EAGLE3")]))
def test_damaged_kv_changes_the_text(rig: Rig, spec: Spec) -> None:
    assert differing(rig.run(spec, LOAD).texts, rig.reference(LOAD))


@pytest.mark.slow
@pytest.mark.parametrize("spec", params([broken("no-dwell", "v1"), broken("no-dwell", "v2")]))
def test_a_missing_dwell_breaks_the_rule(rig: Rig, spec: Spec) -> None:
    steps = rig.run(spec, LOAD).steps
    batches = [step["batch"] for step in steps]
    assert [step["on"] for step in steps] != rule.follow(batches, THRESHOLD, RESUME, RESUME_STEPS)


def test_a_hook_left_out_of_the_worker_that_runs_gives_no_marker_and_no_state(rig: Rig) -> None:
    """The fault that made this project: the file is patched, the server starts, and nothing happens."""
    result = rig.run(broken("hook-left-out", "v2"), LOAD)
    assert not differing(result.texts, rig.reference(LOAD)), "the text alone would never have told"
    assert result.markers == []
    assert result.state is None
    assert result.switches == 0
