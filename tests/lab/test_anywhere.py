"""A sample of `make anywhere`: faults in the middle of deploys and rollbacks, on real hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from .anywhere.ailments import KILLED, Ailment, general
from .anywhere.campaign import Crew, kinds_of_actions, one
from .anywhere.cases import Case, Place, matrix, places
from .anywhere.trip import AFTER, BEFORE, DURING, UNDO, Trip
from .lab import Lab

RESULTS = Path(__file__).parent / "results"


@pytest.fixture(scope="module")
def crew(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Host h3 with a release that serves; cases follow each other on it."""
    made = Crew(lab, "h3", "systemd", tmp_path_factory.mktemp("anywhere"), haste=0.2)
    made.switching = frozenset(("flip", "gate", "start", "mark-good"))
    yield made
    with lab.inside():
        for variant in list(made.stages):
            made.forget(variant)


SAMPLE = {
    "the operator is killed after the flip and the host restarts": Case(
        "full", "deploy", "operator killed, host rebooted", Trip("start", 1, AFTER, die="SIGKILL")
    ),
    "the operator is killed after it passed": Case(
        "full", "deploy", KILLED, Trip("mark-good", 1, AFTER, die="SIGKILL"), wait=False, then="rollback"
    ),
    "the disk fills up while the new server is on trial": Case(
        "full", "deploy", "disk full /", Trip("gate", 1, DURING, 2, "before"), sick="gives no marker"
    ),
    "the operator is killed within a rollback": Case(
        "full", "rollback", KILLED, Trip("flip", 1, DURING, 1, "flight", 0.05, die="SIGKILL"), then="rollback"
    ),
}


@pytest.mark.lab
@pytest.mark.parametrize("case", SAMPLE.values(), ids=[name.replace(" ", "-") for name in SAMPLE])
def test_the_old_release_serves_or_the_new_one_proven_when(case: Case, in_lab: Lab, crew: Crew) -> None:
    outcome = one(crew, case)
    assert outcome.wrong == [], json.dumps(outcome.as_dict(), indent=1)
    assert outcome.struck


def a_plan() -> list[Place]:
    calls = {("flip", DURING): 2, ("flip", UNDO): 2, ("gate", DURING): 13}
    return places("full", "deploy", ["prepare-root", "flip", "gate", "an-action-of-tomorrow"], calls)


def test_the_matrix_has_every_action_of_a_plan_in_every_phase_with_every_fault() -> None:
    cases = matrix(a_plan(), general(), seed=1)
    met = {(c.trip.kind, c.trip.phase, c.ailment) for c in cases}
    for kind in ("prepare-root", "flip", "gate", "an-action-of-tomorrow"):
        for phase in (BEFORE, DURING, AFTER):
            assert {(kind, phase, a.name) for a in general()} <= met
    assert {("flip", UNDO, a.name) for a in general()} <= met
    assert not any(c.trip.phase == UNDO and c.trip.kind == "gate" for c in cases)  # it undoes nothing


def test_a_matrix_that_is_cut_short_has_met_every_action_and_every_fault_early() -> None:
    cases = matrix(a_plan(), general(), seed=1)
    early = cases[: len(general()) + 4]
    assert {c.trip.kind for c in early if c.trip.kind} == {p.kind for p in a_plan()}
    assert {c.ailment for c in early} >= {a.name for a in general()}


def test_the_same_seed_makes_the_same_cases() -> None:
    first, again = (matrix(a_plan(), general(), seed=7) for _ in range(2))
    assert [c.id for c in first] == [c.id for c in again]
    assert [c.id for c in matrix(a_plan(), general(), seed=8)] != [c.id for c in first]


def test_every_place_dies_by_its_own_hand_where_the_operator_is_what_fails() -> None:
    killed = Ailment("killed", die="SIGKILL")
    assert {c.trip.die for c in matrix(a_plan(), [killed], seed=1) if c.trip.kind} == {"SIGKILL"}
    assert replace(killed, die="").die == ""


@pytest.mark.parametrize("name", ["anywhere", "soak"])
def test_the_kept_result_says_what_was_tried_and_what_was_lost(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text())
    assert result["tried"] == result["survived"] + result["lost"]
    assert result["lost"] == len(result["what went wrong"])
    assert result["tried"] > 0


def test_the_kept_matrix_knows_every_action_that_there_is() -> None:
    """A new action asks for a new run of `make anywhere`, one that no plan has for a site that has it.

    Supervisor is brought to hosts without systemd only, before anything is armed or stopped. That it cannot
    be is in tests/release/test_deploy_here.py.
    """
    without = {"bring-supervisor"}
    result = json.loads((RESULTS / "anywhere.json").read_text())
    known = {action.split()[1] for action in result["actions"]}
    assert set(result["actions that no plan here has"]) <= without
    assert known == kinds_of_actions() - without
