"""Ask a host what a plan needs to know. Only reads; as few round trips as it can be done with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specctl.config.model import HostConfig, SecretRef, ServerConfig
from specctl.config.secrets import Secret
from specctl.evidence.model import Expectation
from specctl.host.protocol import Host
from specctl.host.shape import shaped
from specctl.release.deploy_plan import HostFacts, Installer
from specctl.release.remote import Remote
from specctl.release.secret import secret_digest
from specctl.release.state import HostState
from specctl.release.switch_plan import ServerFacts
from specctl.release.units import digest_of, unit_of, unit_text
from specctl.service.protocol import Service, Unit
from specctl.service.units_only import check_set_up


@dataclass(frozen=True)
class Surveyor:
    """One connected host, and what is needed to make sense of it."""

    host: Host
    config: HostConfig
    services: Mapping[str, Service]
    secret: Callable[[SecretRef], Secret]
    owner: str | None = None  # the user that servers run as, where that is not who writes

    def state(self, units: Mapping[str, Unit] | None = None) -> HostState:
        """What lies below the root; `units` name the files to compare."""
        units = units or self.units()
        paths = {name: [f.path for f in self.services[name].files(unit)] for name, unit in units.items()}
        remote = Remote(self.host, self.config.root, "survey", self.config.sudo)
        return shaped(self.host.name, "state", remote.program("state", units=paths), HostState.from_json)

    def units(self) -> dict[str, Unit]:
        """The unit that each server should have."""
        return {s.name: unit_of(self.config, s) for s in self.config.servers}

    def facts(
        self,
        expect: Callable[[ServerConfig], Expectation],
        installer: Callable[[HostState], tuple[Installer, int | None]],
    ) -> HostFacts:
        """Everything that a plan is made from.

        Args:
            expect: server -> what its gate has to see.
            installer: asked with the state; how packages are installed there, and the bytes that are free.
                It may need further round trips, so it decides whether they are worth it.
        """
        units = self.units()
        for name, unit in units.items():
            check_set_up(self.services[name], unit)
        state = self.state(units)
        servers = tuple(
            self._server(server, units[server.name], state, expect) for server in self.config.servers
        )
        with_what, free = installer(state)
        return HostFacts(self.config, state, servers, with_what, self.owner, free)

    def render(self, server: str, unit: Unit) -> tuple[str, str]:
        """Digest and text of a unit's files, as this specctl writes them there."""
        service = self.services[server]
        return digest_of(service, unit) or "", unit_text(service, unit)

    def _server(
        self,
        server: ServerConfig,
        unit: Unit,
        state: HostState,
        expect: Callable[[ServerConfig], Expectation],
    ) -> ServerFacts:
        record = state.server(server.name)
        digest, text = self.render(server.name, unit)
        return ServerFacts(
            config=server,
            unit=unit,
            unit_text=text,
            unit_sha256=digest,
            secrets=secret_digest(server, state.salt, self.secret),
            expectation=expect(server),
            # a server that never had a unit cannot run; asking would cost a trip
            running=record.unit_sha256 is not None and self.services[server.name].state().running,
        )
