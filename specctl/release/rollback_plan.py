"""From facts to the plan of a rollback. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from specctl.config.model import HostConfig
from specctl.evidence.model import Expectation
from specctl.release.actions.base import Action
from specctl.release.actions.check import CheckInstall
from specctl.release.actions.folders import PrepareRoot
from specctl.release.deploy_plan import HostFacts, bring_supervisor, close_unfinished, notes_of
from specctl.release.errors import NoTarget
from specctl.release.gate import as_expectation
from specctl.release.plan import Plan, ServerChange
from specctl.release.state import Good, HostState, ServerRecord
from specctl.release.switch_plan import ServerFacts, Switch, settle, switch
from specctl.release.units import unit_from_dict
from specctl.service.protocol import Unit

# (release id, server's name) -> what its gate has to see; for a release that this server never ran
Expect = Callable[[str, str], Expectation]
# (server's name, unit) -> digest and text of its files, as this specctl writes them
Render = Callable[[str, Unit], tuple[str, str]]


def target_of(
    record: ServerRecord, state: HostState, to: str | None, host: HostConfig
) -> tuple[str, Good | None]:
    """The release a server goes back to, and the good state it had there, if any.

    Without `to`: what last passed, when `current` has not; else the newest good state of another release.
    Only a release that is complete and not marked failed is a target.

    Raises:
        NoTarget: there is none, with why each candidate is none.
    """
    if to is not None:
        reason = _unusable(state, to)
        if reason is None:
            return to, next((g for g in reversed(record.goods) if g.release == to), None)
        raise _none(host, record, [f"{to}: {reason}"], "specctl history lists the releases of each host")
    refused = []
    for good in reversed(record.goods):
        if record.proven and good.release == record.current:
            continue
        reason = _unusable(state, good.release)
        if reason is None:
            return good.release, good
        refused.append(f"{good.release}: {reason}")
    raise _none(host, record, refused, "deploy the release that you want; `current` is left as it is")


def make_rollback_plan(facts: HostFacts, to: str | None, expect: Expect, render: Render) -> Plan:
    """Every server of the host goes back; each to its own target.

    Raises:
        NoTarget: a server has none. Nothing is planned then, also not for the others.
    """
    switches, changes = [], []
    for server in facts.servers:
        record = facts.state.server(server.config.name)
        if to is None and _is_back(facts.state, record, server):
            text = server.unit_text
            changes.append(ServerChange(record.name, (), record.current, record.current or "", text, text))
            continue
        release, good = target_of(record, facts.state, to, facts.config)
        wanted = _as_it_was(server, release, good, expect, render)
        why = [f"release: {record.current or 'none'} -> {release}"]
        if to is not None and record.proven and record.current == release and server.running:
            why = []
        old = record.good.unit.get("text") if record.good else None
        changes.append(
            ServerChange(server.config.name, tuple(why), record.current, release, old, wanted.unit_text)
        )
        if why:
            version = facts.state.releases[release].version or wanted.expectation.distribution
            switches.append(Switch(wanted, release, version))
    actions: list[Action] = close_unfinished(facts.state)
    if switches:
        actions.append(PrepareRoot(facts.config.root, tuple(s.name for s in switches)))
        seen = {s.release: s for s in switches}
        actions += [
            CheckInstall(s.release, s.facts.expectation.distribution, dict(s.facts.expectation.files))
            for s in seen.values()
        ]
        actions += bring_supervisor(facts)
        actions += switch(facts.state, switches, owner=facts.owner)
        actions += settle(switches, rollback=True)
    first = switches[0].release if switches else (to or "")
    return Plan(facts.config.name, "rollback", first, tuple(actions), tuple(changes), notes_of(facts))


def _is_back(state: HostState, record: ServerRecord, server: ServerFacts) -> bool:
    """An unfinished run is where this rollback leads to: going further back is not meant.

    That is a deploy which the host has undone by itself, or a rollback which had passed when its operator was
    lost. A deploy that had passed is gone back from, and a rollback that was undone is done again.
    """
    pending, good = state.pending, record.good
    if pending is None or good is None or not record.proven or not server.running:
        return False
    passed = good.run == pending.run
    return (pending.command == "deploy" and not passed) or (pending.command == "rollback" and passed)


def _as_it_was(
    server: ServerFacts, release: str, good: Good | None, expect: Expect, render: Render
) -> ServerFacts:
    """The server as it was when it last passed with that release; secrets stay as they are now.

    The unit goes back too: an older release may not know the flags of a newer one. A release that this
    server never ran gets the inventory's unit.
    """
    if good is None:
        return replace(server, expectation=expect(release, server.config.name))
    unit = unit_from_dict(good.unit)
    digest, text = render(server.config.name, unit)
    return replace(
        server,
        unit=unit,
        unit_text=text,
        unit_sha256=digest,
        expectation=as_expectation(good.expectation),
    )


def _unusable(state: HostState, release: str) -> str | None:
    known = state.releases.get(release)
    if known is None:
        return "not on this host"
    if not known.complete:
        return "not complete"
    if known.failed is not None:
        return f"failed: {known.failed}"
    return None


def _none(host: HostConfig, record: ServerRecord, refused: list[str], hint: str) -> NoTarget:
    return NoTarget(
        f"server {record.name} on {host.name} has no release to roll back to",
        context={
            "host": host.name,
            "server": record.name,
            "current": record.current or "none",
            "candidates": "\n".join(refused) or "none",
        },
        hint=hint,
    )
