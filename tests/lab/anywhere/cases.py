"""Cases, made from the actions of real plans: every action, every phase, every fault. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .ailments import KILLED, SICK, Ailment
from .trip import AFTER, BEFORE, DURING, UNDO, Trip


@dataclass(frozen=True)
class Place:
    """One action of one verb, and how many calls to the host it makes."""

    variant: str  # which site's plan it is from
    verb: str  # deploy | rollback
    kind: str
    nth: int
    calls: int  # of apply and verify
    undo_calls: int  # 0: it was not seen to undo anything


@dataclass(frozen=True)
class Case:
    """One fault at one place, and how the host is found afterwards."""

    variant: str
    verb: str
    ailment: str
    trip: Trip = field(default_factory=Trip)
    sick: str = ""  # how the new server is ill, see SICK
    wait: bool = (
        True  # the host is left alone until it has ended by itself; else the next command comes at once
    )
    then: str = "deploy"  # the next command

    @property
    def id(self) -> str:
        ill = f" to one that {self.sick}" if self.sick else ""
        where = f", at {self.trip.where}" if self.trip.kind else ""
        alone = "left alone, " if self.wait else ""
        return f"{self.variant}: {self.verb}{ill}, {self.ailment}{where}; {alone}{self.then}"

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, **asdict(self)}


def places(
    variant: str, verb: str, actions: Sequence[str], calls: Mapping[tuple[str, str], int]
) -> list[Place]:
    """The actions of a plan (kinds, in order) with the calls that were counted when it ran."""
    seen: dict[str, int] = {}
    found = []
    for kind in actions:
        seen[kind] = seen.get(kind, 0) + 1
        found.append(
            Place(variant, verb, kind, seen[kind], calls.get((kind, DURING), 1), calls.get((kind, UNDO), 0))
        )
    return found


def matrix(all_places: Sequence[Place], ailments: Sequence[Ailment], seed: int) -> list[Case]:
    """Every place x phase x fault, then the ill servers; in an order that covers widely from its start.

    What is left to chance (which call, when in its flight, what comes next) follows from the seed.
    """
    chance = random.Random(seed)
    rest = [
        case_at(place, phase, ailment, chance)
        for phase in (BEFORE, DURING, AFTER, UNDO)
        for place in all_places
        for ailment in ailments
        if phase != UNDO or place.undo_calls
    ]
    chance.shuffle(rest)
    ill = ill_servers(all_places)
    ordered: list[Case] = []
    while rest:
        widest, rest = spread(rest)
        ordered += widest
        ordered, ill = [*ordered, *ill[:10]], ill[10:]
    return [*ordered, *ill]


def ill_servers(all_places: Sequence[Place]) -> list[Case]:
    """Each way in which a started server can be ill, with the operator there and without."""
    ill = [
        Case("full", verb, "none", sick=sick)
        for verb in sorted({p.verb for p in all_places if p.variant == "full"})
        for sick in SICK
    ]
    lost = Trip("gate", 1, DURING, 2, "after", die="SIGKILL")
    return [*ill, *(replace(case, ailment=KILLED, trip=lost) for case in ill)]


def spread(cases: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    """A few cases that meet every place and every fault that there is among all, and the others."""
    first: list[Case] = []
    rest: list[Case] = []
    met: set[object] = set()
    for case in cases:
        place, fault = (case.variant, case.verb, case.trip.kind, case.trip.nth), case.ailment
        if place not in met or fault not in met:
            first.append(case)
            met |= {place, fault}
        else:
            rest.append(case)
    return first, rest


def case_at(place: Place, phase: str, ailment: Ailment, chance: random.Random) -> Case:
    """One fault at one place; the details by chance."""
    calls = place.undo_calls if phase == UNDO else place.calls
    trip = Trip(
        kind=place.kind,
        nth=place.nth if phase != UNDO else 1,
        phase=phase,
        call=chance.randint(1, max(1, calls)) if phase in (DURING, UNDO) else 1,
        moment=chance.choice(("before", "flight", "flight", "after")),
        delay_s=round(chance.uniform(0.0, 0.3), 3),
        die=ailment.die,
    )
    return Case(
        place.variant,
        place.verb,
        ailment.name,
        trip,
        sick=chance.choice(("dies at start", "gives no marker")) if phase == UNDO else "",
        wait=ailment.lasting or chance.random() < 0.5,
        then=chance.choice(("deploy", "rollback")),
    )
