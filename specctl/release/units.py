"""What a server's unit is made of, and how it is kept and compared. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from specctl.config.model import EnvironmentKind, HostConfig, ServerConfig
from specctl.release.onhost.common import unit_digest
from specctl.service.protocol import Service, Unit
from specctl.service.unit import unit_for


def unit_of(host: HostConfig, server: ServerConfig) -> Unit:
    """The unit of one server. It names `current`, not a release: a flip needs no new unit."""
    unit = unit_for(host, server)
    if host.environment is EnvironmentKind.ADOPTED:
        # the server imports torch and kernels from the adopted environment: it must not leave bytecode there
        unit = replace(unit, env={"PYTHONDONTWRITEBYTECODE": "1", **unit.env})
    return unit


def unit_as_dict(unit: Unit) -> dict[str, Any]:
    """A unit as JSON: how a plan shows it, and how a good state keeps it."""
    return asdict(unit)


def unit_from_dict(raw: Mapping[str, Any]) -> Unit:
    """The unit that `unit_as_dict` described; fields that this version does not know are left out."""
    known = {f.name for f in fields(Unit)}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items() if k in known}
    return Unit(**values)


def digest_of(service: Service, unit: Unit) -> str | None:
    """The digest that the host's state would show if exactly this unit were installed."""
    return unit_digest({f.path: f.data for f in service.files(unit)})


def unit_text(service: Service, unit: Unit) -> str:
    """The unit's files as one text, for a diff."""
    return "".join(f"# {f.path}\n{f.data.decode('utf-8', 'replace')}" for f in service.files(unit))
