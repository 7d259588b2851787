"""From facts to the plan of a deploy. Pure: everything it looks at is handed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specctl.build.distribution import Distribution
from specctl.config.model import EnvironmentKind, HostConfig, Supervisor
from specctl.release.actions.adopted import CheckAdopted, FingerprintAdopted, LinkAdopted
from specctl.release.actions.base import Action
from specctl.release.actions.check import CheckInstall
from specctl.release.actions.environment import InstallLock, InstallWheel, MakeVenv
from specctl.release.actions.folders import MarkComplete, OpenRelease, PrepareRoot
from specctl.release.actions.prune import Prune
from specctl.release.actions.supervisor import BringSupervisor
from specctl.release.actions.unfinished import CloseRun
from specctl.release.actions.upload import Push, PushDistribution, PushTool, PushWheels
from specctl.release.errors import PlanRefused
from specctl.release.layout import Layout
from specctl.release.plan import Plan, ServerChange
from specctl.release.prune import prunable, useless
from specctl.release.state import HostState
from specctl.release.switch_plan import ServerFacts, Switch, settle, switch


@dataclass(frozen=True)
class Installer:
    """With what packages are installed on this host."""

    uv: str | None  # path on the host; None: pip
    push: Push | None = None  # uv has to be pushed there first


@dataclass(frozen=True)
class Source:
    """The distribution as files on this machine."""

    distribution: Distribution
    files: tuple[Push, ...]  # wheel, record, lock; `remote` is the name in the release's folder
    packages: int  # in the lock
    wheels: tuple[Push, ...] = ()  # of the wheelhouse, what the lock names; `remote` is the bare name


@dataclass(frozen=True)
class HostFacts:
    """One host, as far as a deploy depends on it."""

    config: HostConfig
    state: HostState
    servers: tuple[ServerFacts, ...]
    installer: Installer
    owner: str | None = None  # the user that servers run as, where that is not who writes
    free_bytes: int | None = None  # on the root's file system


def make_deploy_plan(facts: HostFacts, source: Source, release: str) -> Plan:
    """All that leads from what is there to the distribution serving, proven, on every server of the host.

    Raises:
        PlanRefused: the disk has no room for what would be pushed, or others may write to the root.
    """
    _check_owner(facts)
    for server in facts.servers:
        _check_route(facts.config, server)
    changes = [change_of(s, facts.state, release) for s in facts.servers]
    todo = [s for s, c in zip(facts.servers, changes, strict=True) if c.changed]
    actions: list[Action] = close_unfinished(facts.state)
    if todo:
        names = tuple(s.config.name for s in facts.servers)
        actions.append(PrepareRoot(facts.config.root, names))
        adopt = facts.config.adopt if facts.config.environment is EnvironmentKind.ADOPTED else None
        if adopt:
            actions.append(FingerprintAdopted(release, adopt))
        known = facts.state.releases.get(release)
        if known is None or not known.complete:
            actions += _install(facts, source, release)
        else:
            actions.append(
                CheckInstall(release, source.distribution.version, dict(source.distribution.files))
            )
        actions += bring_supervisor(facts)
        switches = [Switch(s, release, source.distribution.version) for s in todo]
        actions += switch(facts.state, switches, owner=facts.owner)
        if adopt:
            actions.append(CheckAdopted(release, adopt))
        actions += settle(switches)
    doomed = prunable(facts.state, facts.config.keep_releases, release)
    if todo and doomed:
        actions.append(Prune(doomed, useless(facts.state, doomed)))
    return Plan(facts.config.name, "deploy", release, tuple(actions), tuple(changes), notes_of(facts))


def bring_supervisor(facts: HostFacts) -> list[Action]:
    """Before the first stop: whoever has no supervisor could not start again what was stopped."""
    config = facts.config
    if config.supervisor is not Supervisor.SUPERVISOR or facts.state.supervisor:
        return []
    links = Layout(config.root).wheels if config.wheelhouse else None
    return [BringSupervisor(config.servers[0].name, config.root, links)]


def change_of(server: ServerFacts, state: HostState, release: str) -> ServerChange:
    """Why a server has to be switched; no reason, no change."""
    record = state.server(server.config.name)
    why = []
    if record.current != release:
        why.append(f"release: {record.current or 'none'} -> {release}")
    if record.unit_sha256 != server.unit_sha256:
        why.append("unit: not there yet" if record.unit_sha256 is None else "unit: changed")
    if record.secrets != server.secrets:
        why.append("secrets: changed")
    if not why and not record.proven:
        why.append("gate: this state has not passed yet")
    if not server.running and not why:
        why.append("process: not running")
    good = record.good
    return ServerChange(
        server=server.config.name,
        why=tuple(why),
        before=record.current,
        after=release,
        unit_before=str(good.unit.get("text")) if good and good.unit.get("text") else None,
        unit_after=server.unit_text,
        files=_differences(good.expectation.get("files", {}) if good else {}, server.expectation.files),
    )


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Overlaid files that a release adds, drops or changes, against what last passed here."""
    signs = {
        path: "+" if path not in before else "-" if path not in after else "~"
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    }
    return tuple(f"{sign} {path}" for path, sign in signs.items())


def _install(facts: HostFacts, source: Source, release: str) -> list[Action]:
    config, uv = facts.config, facts.installer.uv
    paths, layout = Layout(config.root).release(release), Layout(config.root)
    adopted = config.environment is EnvironmentKind.ADOPTED
    wheels = tuple(w for w in source.wheels if facts.state.wheels.get(w.remote) != w.sha256)
    pushed = _at(source.files, paths.folder)
    _check_room(facts, sum(p.size for p in (*wheels, *pushed)))
    actions: list[Action] = [OpenRelease(release)]
    if facts.installer.push is not None:
        actions.append(PushTool((facts.installer.push,)))
    if wheels:
        actions.append(PushWheels(_at(wheels, layout.wheels)))
    actions.append(PushDistribution(pushed, release))
    python = f"{config.adopt}/bin/python" if adopted else config.python
    actions.append(MakeVenv(release, python, uv, adopted))
    if not adopted and source.packages:
        store = layout.wheels if config.wheelhouse else None
        actions.append(InstallLock(release, uv, source.packages, store))
    installer = python if adopted and uv is None else None
    actions.append(InstallWheel(release, source.distribution.wheel, uv, installer))
    if adopted and config.adopt:
        actions.append(LinkAdopted(release, config.adopt))
    actions.append(CheckInstall(release, source.distribution.version, dict(source.distribution.files)))
    if adopted and config.adopt:
        actions.append(CheckAdopted(release, config.adopt))
    actions.append(MarkComplete(release))
    return actions


def _check_route(host: HostConfig, server: ServerFacts) -> None:
    """What cannot start, or a threshold that cannot take effect, would cost a restart to find out."""
    expected = server.expectation
    if expected.problems:
        raise PlanRefused(
            f"server {expected.server} on {host.name} would not start: {'; '.join(expected.problems)}",
            code="route-refused",
            context={"host": host.name, "server": expected.server},
            hint="correct the server's args or env in the inventory; specctl route tries them",
        )
    if expected.threshold is None:
        return
    problem = ""
    if expected.worker is None:
        problem = "its arguments select no speculative worker"
    elif expected.worker not in expected.covers:
        covered = " and ".join(expected.covers) or "no worker class at all"
        problem = f"its arguments select {expected.worker}, the distribution overlays {covered}"
    if problem:
        raise PlanRefused(
            f"server {expected.server} on {host.name} has a threshold that would do nothing: {problem}",
            code="route-not-covered",
            context={"host": host.name, "server": expected.server, "why": "\n".join(expected.reasons)},
            hint="see specctl route; change the arguments, or take the threshold away",
        )


def _at(files: tuple[Push, ...], folder: str) -> tuple[Push, ...]:
    return tuple(Push(f.local, f"{folder}/{f.remote}", f.sha256, f.size, f.mode) for f in files)


def _check_owner(facts: HostFacts) -> None:
    """A root that others may write to would let them choose what the servers run."""
    root, why = facts.config.root, facts.state.exposed
    if why:
        raise PlanRefused(
            f"{root} on {facts.config.name} {why}: whoever that is decides what the servers run",
            code="root-exposed",
            context={"host": facts.config.name, "root": root},
            hint=f"look at what is in it, then: chown USER {root}; chmod go-w {root}",
        )


def _check_room(facts: HostFacts, pushed: int) -> None:
    """Wheels are kept, unpacked into the cache, and linked from there: three times their size, at most."""
    need = 3 * pushed + (64 << 20)
    if facts.free_bytes is not None and facts.free_bytes < need:
        raise PlanRefused(
            f"{facts.config.name} has {facts.free_bytes / 1e9:.1f} GB free below {facts.config.root}, "
            f"{need / 1e9:.1f} GB are needed",
            code="no-room",
            context={"host": facts.config.name, "root": facts.config.root},
            hint="make room, or choose another root; specctl prune removes old releases",
        )


def close_unfinished(state: HostState) -> list[Action]:
    """An earlier run that never wrote its end is ended first."""
    p = state.pending
    return [] if p is None else [CloseRun(p.run, p.command, p.release, p.by, p.journal)]


def notes_of(facts: HostFacts) -> tuple[str, ...]:
    notes = []
    pending = facts.state.pending
    if pending is not None:
        at = f"{pending.step} {pending.server or ''}".strip() or "the start"
        notes.append(
            f"an unfinished {pending.command} of {pending.release} by {pending.by} stopped at {at}; "
            "this plan starts from what is there now"
        )
    if facts.state.lock is not None:
        notes.append(f"locked by {facts.state.lock.describe()}")
    known = {s.config.name for s in facts.servers}
    strangers = sorted(set(facts.state.servers) - known)
    if strangers:
        notes.append(f"servers on the host that this run does not touch: {', '.join(strangers)}")
    return tuple(notes)
