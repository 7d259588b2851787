"""How servers are switched from one release to another: alike for a deploy and a rollback. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specctl.config.model import ServerConfig
from specctl.evidence.model import Expectation
from specctl.release.actions.base import Action
from specctl.release.actions.deadman import ArmDeadman, Before, DisarmDeadman
from specctl.release.actions.gate import Gate
from specctl.release.actions.record import MarkGood, Proven
from specctl.release.actions.switch import Flip, InstallUnit, Start, Stop, WriteSecrets
from specctl.release.gate import expectation_as_dict
from specctl.release.state import Good, HostState, ServerRecord
from specctl.release.units import unit_as_dict
from specctl.service.protocol import Unit


@dataclass(frozen=True)
class ServerFacts:
    """One server: what it should be, and whether it runs."""

    config: ServerConfig
    unit: Unit
    unit_text: str
    unit_sha256: str
    secrets: str | None  # salted digest; "new" on a host without a salt
    expectation: Expectation
    running: bool


@dataclass(frozen=True)
class Switch:
    """One server and where it goes."""

    facts: ServerFacts
    release: str
    version: str  # of the distribution

    @property
    def name(self) -> str:
        return self.facts.config.name


def good_before(record: ServerRecord, state: HostState) -> Good | None:
    """What a failure leads back to: the newest good state whose release is still whole."""
    for good in reversed(record.goods):
        release = state.releases.get(good.release)
        if release is not None and release.complete:
            return good
    return None


def switch(state: HostState, switches: Sequence[Switch], *, owner: str | None) -> list[Action]:
    """Stop, change, start and gate servers one after the other, under the host's own undo.

    Unit, secrets and `current` are steps whenever they differ from what is there or from what a failure leads
    back to: after an interrupted run the first may be right already, and the way back must still be whole.
    """
    before = {s.name: good_before(state.server(s.name), state) for s in switches}
    actions: list[Action] = [
        ArmDeadman(
            switches[0].release,
            tuple(_before(s, state.server(s.name), before[s.name]) for s in switches),
            stop_s=max(s.facts.config.timers.stop_s for s in switches),
        )
    ]
    for step in switches:
        actions += _one(step, state.server(step.name), before[step.name], owner)
    return actions


def _one(step: Switch, record: ServerRecord, good: Good | None, owner: str | None) -> list[Action]:
    facts, config = step.facts, step.facts.config
    back = good.release if good else None
    actions: list[Action] = [
        Stop(
            step.name,
            running=facts.running or not record.proven,
            stop_s=config.timers.stop_s,
            start_s=config.timers.start_s,
            port=config.port,
            previous={"release": good.release, "expectation": dict(good.expectation)} if good else None,
        )
    ]
    if facts.unit_sha256 != record.unit_sha256 or good is None or good.unit_sha256 != facts.unit_sha256:
        actions.append(InstallUnit(step.name, unit_record(facts), previous=dict(good.unit) if good else None))
    if facts.secrets != record.secrets or facts.secrets != (good.secrets if good else None):
        actions.append(WriteSecrets(step.name, facts.secrets, good.secrets if good else None, owner))
    if step.release != record.current or step.release != back:
        actions.append(Flip(step.name, step.release, back))
    actions += [
        Start(step.name, step.release, step.version, config.port, config.timers.stop_s, previous=back),
        Gate(
            step.name,
            step.release,
            expectation_as_dict(facts.expectation),
            start_s=config.timers.start_s,
            hold_s=config.timers.hold_s,
        ),
    ]
    return actions


def settle(switches: Sequence[Switch], *, rollback: bool = False) -> list[Action]:
    """Write down that all of them passed, then let the host's own undo go."""
    proven = tuple(
        Proven(
            s.name,
            s.release,
            unit_record(s.facts),
            s.facts.unit_sha256,
            expectation_as_dict(s.facts.expectation),
            has_secrets=s.facts.secrets is not None,
        )
        for s in switches
    )
    return [MarkGood(switches[0].release, proven, rollback), DisarmDeadman(tuple(s.name for s in switches))]


def unit_record(facts: ServerFacts) -> dict[str, Any]:
    """A unit as it is kept: its data, and its text for people."""
    return {**unit_as_dict(facts.unit), "text": facts.unit_text}


def _before(step: Switch, record: ServerRecord, good: Good | None) -> Before:
    served = step.facts.running or not record.proven
    unit = dict(good.unit) if good else unit_record(step.facts)
    back = good.release if good else None
    return Before(step.name, back, unit, good.secrets if good else None, served)
