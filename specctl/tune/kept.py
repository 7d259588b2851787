"""What a server starts with the next time: its unit on the host, and how a live change is kept in it.

The unit is the only place a start reads, whoever asks for it: specctl, the supervisor, or a reboot. So a live
change is written there, and nowhere else a copy could go stale. A unit that differs from the inventory shows
as drift in `status` and `plan`, and the next deploy puts the inventory's values back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specctl.config.model import HostConfig, ServerConfig
from specctl.host.protocol import Host
from specctl.host.shape import shaped
from specctl.release.clock import Clock, Operator, stamp
from specctl.release.history import Entry, read_history
from specctl.release.layout import Layout
from specctl.release.remote import Remote
from specctl.release.state import HostState
from specctl.release.units import unit_from_dict, unit_of
from specctl.service.protocol import Service, Unit
from specctl.tune.values import Values, argv_with, values_in

COMMAND = "threshold"  # of these changes in the host's history


@dataclass(frozen=True)
class Kept:
    """The unit as it lies on the host. `unit` is None when it is none that specctl wrote."""

    values: Values | None  # what a start would use; None: no threshold
    unit: Unit | None
    why: str = ""  # why `unit` is None


def kept(host: Host, config: HostConfig, server: ServerConfig, service: Service) -> Kept:
    """Read the unit's files and recognise them: a deployed unit or the inventory's, with any threshold."""
    inventory_unit = unit_of(config, server)
    texts = [host.read(f.path, sudo=config.sudo) for f in service.files(inventory_unit)]
    if None in texts:
        return Kept(None, None, "its unit is not installed")
    lying = [text for text in texts if text is not None]
    values = values_in(lying)
    for candidate in (*_deployed(host, config, server), inventory_unit):
        unit = candidate if values is None else with_values(candidate, values)
        if [f.data for f in service.files(unit)] == lying:
            return Kept(values, unit)
    return Kept(values, None, "its unit on the host is neither the deployed one nor the inventory's")


def with_values(unit: Unit, values: Values) -> Unit:
    """The unit with other thresholds, and all else as it is."""
    return replace(unit, argv=argv_with(unit.argv, values))


def _deployed(host: Host, config: HostConfig, server: ServerConfig) -> list[Unit]:
    """The units that passed a gate, the newest first."""
    remote = Remote(host, config.root, "survey", config.sudo)
    raw = remote.program("state", units={server.name: []})
    state = shaped(host.name, "state", raw, HostState.from_json)
    goods = reversed(state.server(server.name).goods)
    return [unit_from_dict(good.unit) for good in goods if good.unit.get("argv")]


def keep(service: Service, found: Kept, values: Values) -> bool:
    """Write the values into the unit; the process is left alone. False: the unit cannot be changed."""
    if found.unit is None:
        return False
    service.install(with_values(found.unit, values))
    return True


def note_change(
    remote: Remote,
    clock: Clock,
    operator: Operator,
    server: str,
    old: Values | None,
    new: Values,
    result: str,
) -> None:
    """Write a change into the host's journal and history: who, when, from what to what, and how it ended."""
    detail = f"{server}: {old or 'no threshold'} -> {new}"
    record = {"event": COMMAND, "run": remote.run, "at": stamp(clock), "by": operator.name, "server": server}
    values = {"old": old.as_dict() if old else None, "new": new.as_dict(), "result": result}
    entry = {"at": record["at"], "run": remote.run, "command": COMMAND, "release": "", "by": operator.name}
    remote.program(
        "journal",
        journal=Layout(remote.root).journal(""),
        records=[{**record, **values}],
        entry={**entry, "result": result, "detail": detail, "servers": [server]},
    )


def last_change(host: Host, config: HostConfig, server: ServerConfig) -> Entry | None:
    """The last noted change of a server's thresholds."""
    return newest(read_history(host, config.root, sudo=config.sudo), server.name)


def newest(entries: Sequence[Entry], server: str) -> Entry | None:
    return next((e for e in reversed(entries) if e.command == COMMAND and server in e.servers), None)
