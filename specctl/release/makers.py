"""From a connected host to its plan: what each verb asks for, with the facts that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specctl.build.distribution import Distribution
from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.model import Expectation
from specctl.release.deploy_plan import Installer, make_deploy_plan
from specctl.release.errors import NoTarget
from specctl.release.layout import Layout
from specctl.release.plan import Plan
from specctl.release.rollback_plan import make_rollback_plan
from specctl.release.source import SourceFolder
from specctl.release.state import HostState
from specctl.release.survey import Surveyor

if TYPE_CHECKING:
    from specctl.release.session import Make, Ports


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
            found, free, markers = ports.installer(surveyor.host, config, state)
            environment.update(markers)
            return found, free

        facts = surveyor.facts(lambda s: ports.expect(config, s, source.distribution), installer)
        return make_deploy_plan(
            facts, source.for_host(config, wheels=installs, environment=environment), release
        )

    return make


def rollback_maker(ports: Ports, to: str | None) -> Make:
    """Plans of a rollback, to `to` or for each server to the release before the current one."""

    def make(surveyor: Surveyor) -> Plan:
        config = surveyor.config
        servers = {s.name: s for s in config.servers}

        def expect(release: str, name: str) -> Expectation:
            return ports.expect(config, servers[name], installed_distribution(surveyor, release))

        facts = surveyor.facts(_nothing_yet, lambda state: (Installer(uv=None), None))
        return make_rollback_plan(facts, to, expect)

    return make


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
