"""Evidence for what is deployed: the expectation comes from the release that `current` points to."""

from __future__ import annotations

import json
from collections.abc import Callable

from specctl.build.distribution import DIST_JSON, Distribution, OverlayRecord
from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.clock import Clock
from specctl.evidence.collect import collect, stamp
from specctl.evidence.expectation import expectation_for
from specctl.evidence.model import Evidence, Kind, Report, Verdict
from specctl.host.protocol import Host
from specctl.service.protocol import Service
from specctl.service.unit import server_folder


def verify_server(
    host: Host,
    config: HostConfig,
    server: ServerConfig,
    service: Service,
    *,
    distribution: Distribution | None = None,
    hold_s: float | None = None,
    with_exercise: bool = False,
    clock: Clock | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """All evidence of one server as it runs now.

    Args:
        distribution: what should be there; None: what the host's own release says it is.
        hold_s: how long the process is watched; None: the inventory's `hold_s`.
    """
    clock = clock or Clock()
    path = f"{server_folder(config.root, server.name)}/current/{DIST_JSON}"
    if distribution is None:
        data = host.read(path, sudo=config.sudo)
        distribution = None if data is None else parse_distribution(data)
    if distribution is None:
        nothing = Evidence(
            Kind.INSTALL,
            Verdict.FAIL,
            "install-nothing",
            "a deployed release",
            "no release, or one whose dist.json cannot be read",
            path,
            "deploy first: specctl deploy",
        )
        return Report(config.name, server.name, "", stamp(clock), (nothing,))
    expectation = expectation_for(
        config, server, distribution, read=lambda name: host.read(name, sudo=config.sudo)
    )
    return collect(
        host,
        config,
        server,
        expectation,
        service,
        hold_s=server.timers.hold_s if hold_s is None else hold_s,
        with_exercise=with_exercise,
        clock=clock,
        progress=progress,
    )


def parse_distribution(data: bytes) -> Distribution | None:
    """A dist.json; None when it is none."""
    try:
        raw = json.loads(data)
        raw["overlays"] = tuple(OverlayRecord(**o) for o in raw["overlays"])
        return Distribution(**raw)
    except (ValueError, TypeError, KeyError):
        return None
