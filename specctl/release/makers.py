"""From a connected host to its plan: what each verb asks for, with the facts that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specctl.build.distribution import Distribution
from specctl.config.model import HostConfig, ServerConfig
from specctl.config.problems import did_you_mean
from specctl.evidence.model import Expectation
from specctl.release.actions.prune import Prune
from specctl.release.deploy_plan import HostFacts, Installer, make_deploy_plan
from specctl.release.errors import NoTarget, PlanRefused
from specctl.release.layout import Layout
from specctl.release.plan import Plan
from specctl.release.prune import prunable, useless
from specctl.release.rollback_plan import make_rollback_plan
from specctl.release.source import SourceFolder
from specctl.release.state import HostState
from specctl.release.survey import Surveyor

if TYPE_CHECKING:
    from specctl.release.engine import Make, Ports


def deploy_maker(ports: Ports, source: SourceFolder) -> Make:
    """Plans of a deploy of one distribution. How packages are installed is only asked when some are."""

    def make(surveyor: Surveyor) -> Plan:
        config = surveyor.config
        release = source.release_of(config)
        environment: dict[str, str] = {}
        installs = False

        def installer(state: HostState) -> tuple[Installer, int | None]:
            nonlocal installs
            known = state.releases.get(release)
            installs = known is None or not known.complete
            if not installs:
                return Installer(uv=None), None
            found, free, markers = ports.installer(surveyor.host, config, state, source.packages(config))
            environment.update(markers)
            return found, free

        check_distribution(config, source.distribution)
        facts = surveyor.facts(
            lambda s: ports.expect(surveyor.host, config, s, source.distribution), installer
        )
        return make_deploy_plan(
            facts, source.for_host(config, wheels=installs, environment=environment), release
        )

    return make


def check_distribution(config: HostConfig, distribution: Distribution) -> None:
    """The inventory says which base and overlays a host runs; others in the distribution are a mistake.

    Raises:
        PlanRefused: another base, or an overlay that the distribution was built without.
    """
    if distribution.base_version != config.base:
        raise PlanRefused(
            f"{config.name} wants base {config.base}, the distribution is {distribution.version}",
            code="other-base",
            context={"host": config.name, "distribution": distribution.version},
            hint="change `base:` in the inventory, or build the distribution for that base",
        )
    there = [overlay.name for overlay in distribution.overlays]
    missing = [name for name in config.overlays if name not in there]
    if missing:
        raise PlanRefused(
            f"{config.name} wants the overlay {missing[0]}, the distribution {distribution.version} has "
            f"{', '.join(there) or 'none'}",
            code="overlay-missing",
            context={"host": config.name, "missing": ", ".join(missing)},
            hint=f"change `overlays:` in the inventory ({did_you_mean(missing[0], there)}), or build the "
            "distribution with it",
        )


def prune_maker(keep: int | None) -> Make:
    """Plans that only remove old releases; `keep` None: as the inventory says."""

    def make(surveyor: Surveyor) -> Plan:
        config, state = surveyor.config, surveyor.state()
        doomed = prunable(state, config.keep_releases if keep is None else keep)
        return Plan(config.name, "prune", "", (Prune(doomed, useless(state, doomed)),) if doomed else ())

    return make


def rollback_maker(ports: Ports, to: str | None) -> Make:
    """Plans of a rollback, to `to` or for each server to the release before the current one."""

    def make(surveyor: Surveyor) -> Plan:
        config = surveyor.config
        servers = {s.name: s for s in config.servers}

        def expect(release: str, name: str) -> Expectation:
            return ports.expect(
                surveyor.host, config, servers[name], installed_distribution(surveyor, release)
            )

        return make_rollback_plan(survey_only(surveyor), to, expect, surveyor.render)

    return make


def survey_only(surveyor: Surveyor) -> HostFacts:
    """Facts for somebody who only looks: nothing is expected, and nothing would be installed."""
    return surveyor.facts(_nothing_yet, lambda _state: (Installer(uv=None), None))


def _nothing_yet(server: ServerConfig) -> Expectation:
    """A rollback expects what the good state of its target says; this stands there until it is known."""
    return Expectation(server=server.name, distribution="", files={}, worker=None)


def installed_distribution(surveyor: Surveyor, release: str) -> Distribution:
    """The record of a release, as it lies on the host.

    Raises:
        NoTarget: it has none that can be read.
    """
    config: HostConfig = surveyor.config
    path = Layout(config.root).release(release).dist_json
    data = surveyor.host.read(path, sudo=config.sudo)
    try:
        return Distribution.from_json((data or b"").decode())
    except (ValueError, TypeError, KeyError) as exc:
        raise NoTarget(
            f"{release} on {config.name} has no readable dist.json",
            context={"host": config.name, "file": path},
            hint="choose another release: specctl history",
        ) from exc
