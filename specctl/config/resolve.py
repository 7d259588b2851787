"""From merged settings to the dataclasses of `specctl.config.model`; every default lives there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specctl.config.inherit import HostEntry, Inheritance
from specctl.config.model import (
    EnvironmentKind,
    HostConfig,
    HostKeys,
    SecretRef,
    ServerConfig,
    SshConfig,
    Supervisor,
    Target,
    ThresholdPolicy,
    Timers,
)
from specctl.config.problems import Problems
from specctl.config.ranges import expand
from specctl.config.reader import INVALID, Located

SECRET_FILE = "{root}/servers/{name}/secret-args.yaml"

_ENUMS = {"supervisor": Supervisor, "environment": EnvironmentKind, "target": Target}
_PATHS_HERE = ("identity_file", "known_hosts", "config_file")


@dataclass(frozen=True)
class PlacedServer:
    """A server and the settings it was made from, so that checks can say where a value was written.

    `broken`: settings that could not be read; the config has a stand-in for each and is only checked further.
    """

    config: ServerConfig
    settings: Located
    broken: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PlacedHost:
    """A host and the settings it was made from; `broken` as for servers."""

    config: HostConfig
    settings: Located
    servers: tuple[PlacedServer, ...]
    broken: frozenset[str] = frozenset()


class Resolver:
    """Makes hosts. `home` is HOME of the operator, or None when it is not set."""

    def __init__(self, inheritance: Inheritance, problems: Problems, home: str | None) -> None:
        self._inheritance = inheritance
        self._problems = problems
        self._home = home

    def host(self, entry: HostEntry) -> PlacedHost | None:
        """None when nothing of the host can be read; why, is among the problems."""
        settings = self._inheritance.settings(entry) if entry.settings.value is not INVALID else None
        if settings is None:
            return None
        given = {
            k: v for k, v in _dict(settings).items() if k not in ("server", "servers", "hosts", "groups")
        }
        broken = frozenset(key for key, value in given.items() if _broken(value))
        own = {key: value for key, value in given.items() if key not in broken}
        ssh = self._ssh(own.get("ssh"), self._address(entry, own.get("address")))
        servers = self._servers(entry, settings)
        fields: dict[str, Any] = {
            key: _ENUMS[key](located.value) if key in _ENUMS else located.value
            for key, located in own.items()
            if key not in ("address", "ssh", "overlays", "wheelhouse")
        }
        if "overlays" in own:
            fields["overlays"] = tuple(_texts(own["overlays"]))
        if "wheelhouse" in own:
            fields["wheelhouse"] = self._path_here(own["wheelhouse"])
        if fields.get("sudo") == "units":
            fields |= {"sudo": False, "sudo_units": True}
        if "root" in fields:
            fields["root"] = fields["root"].rstrip("/")
        config = HostConfig(
            name=entry.name,
            ssh=ssh,
            servers=(),
            groups=tuple(g.name for g in self._inheritance.groups_of(entry.name)),
            **fields,
        )
        placed = tuple(self._server(config, server) for server in servers)
        whole = replace(config, servers=tuple(server.config for server in placed))
        return PlacedHost(whole, settings, placed, broken)

    def _servers(self, entry: HostEntry, settings: Located) -> list[Located]:
        servers = self._inheritance.servers(entry, settings)
        if not servers and settings.get("servers") is None:
            self._problems.add(
                "missing",
                entry.where,
                "no servers",
                "add `servers:` here, in a group or in defaults",
                host=entry.name,
            )
        for server in servers:
            for key in ("model", "port"):
                if isinstance(server.value, dict) and server.get(key) is None:
                    hint = f"add `{key}:` here, or under `server:` for all servers"
                    self._problems.add("missing", server.where, f"{key} is missing", hint, host=entry.name)
        return [server for server in servers if isinstance(server.value, dict)]

    def _server(self, host: HostConfig, settings: Located) -> PlacedServer:
        broken = frozenset(key for key, value in _dict(settings).items() if _broken(value))
        given = {key: value for key, value in _dict(settings).items() if key not in broken}
        fields: dict[str, Any] = {"name": "?", "model": "?", "port": 0}
        fields |= {k: v.value for k, v in given.items() if k in ("name", "model", "port", "bind", "gpus")}
        if "args" in given:
            fields["args"] = tuple(_texts(given["args"]))
        if "env" in given:
            fields["env"] = {name: str(value.value) for name, value in _dict(given["env"]).items()}
        refs = {name: self._secret(ref) for name, ref in _dict(given.get("secrets")).items()}
        fields["secrets"] = {name: ref for name, ref in refs.items() if not name.startswith("--")}
        fields["secret_args"] = {name: ref for name, ref in refs.items() if name.startswith("--")}
        if fields["secret_args"]:
            fields["secret_file"] = SECRET_FILE.format(root=host.root, name=fields["name"])
        policy = _plain(given.get("threshold"))
        if "disable" in policy:
            fields["threshold"] = ThresholdPolicy(**policy)
        elif policy:
            where = given["threshold"].where
            hint = "add `disable:`, the batch size above which speculation is off"
            self._problems.add("missing", where, "the threshold policy has no disable", hint, host=host.name)
        timers = {f"{key}_s": value for key, value in _plain(given.get("timers")).items()}
        fields["timers"] = Timers(**timers)
        return PlacedServer(ServerConfig(**fields), settings, broken)

    def _address(self, entry: HostEntry, address: Located | None) -> str:
        if address is None or not isinstance(address.value, str):
            return entry.name
        values = expand(address.value)
        if len(values) == 1:
            return values[0].replace("{name}", entry.name)
        if address is not entry.settings.get("address"):
            hint = "write it beside the range of names, or use {name}"
            text = "an address with a range belongs to one entry of hosts:"
            self._problems.add("address-range", address.where, text, hint)
        elif len(values) != entry.count:
            text = f"{len(values)} addresses for {entry.count} {'host' if entry.count == 1 else 'hosts'}"
            self._problems.add("address-range", address.where, text, "give both ranges the same length")
        else:
            return values[entry.index].replace("{name}", entry.name)
        return entry.name

    def _ssh(self, located: Located | None, address: str) -> SshConfig:
        given = _dict(located)
        fields = self._login(given)
        if "jumps" in given:
            hops = given["jumps"].value if isinstance(given["jumps"].value, tuple) else ()
            fields["jumps"] = tuple(self._hop(_dict(hop)) for hop in hops)
        if "command_timeout" in given:
            fields["command_timeout_s"] = given["command_timeout"].value
        return SshConfig(address=address, explicit=frozenset(fields), **fields)

    def _hop(self, given: Mapping[str, Located]) -> SshConfig:
        fields = self._login(given)
        address = given.get("address")
        return SshConfig(str(address.value) if address else "", explicit=frozenset(fields), **fields)

    def _login(self, given: Mapping[str, Located]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            k: given[k].value for k in ("port", "user", "identities_only") if k in given
        }
        for key in _PATHS_HERE:
            if key in given:
                is_none = key == "config_file" and given[key].value == "none"
                fields[key] = "none" if is_none else self._path_here(given[key])
        if "host_keys" in given:
            fields["host_keys"] = HostKeys(given["host_keys"].value)
        if "connect_timeout" in given:
            fields["connect_timeout_s"] = given["connect_timeout"].value
        return fields

    def _secret(self, located: Located) -> SecretRef:
        kind, source = located.value if isinstance(located.value, tuple) else ("", "")
        if kind == "file":
            source = self._path_here(Located(source, located.where))
        return SecretRef(kind, source)

    def _path_here(self, located: Located) -> str:
        """A path on this machine: ~ is HOME, a relative path begins at the folder of its file."""
        text = str(located.value)
        if text == "~" or text.startswith("~/"):
            if self._home:
                return str(Path(self._home, text[2:]))
            self._problems.add(
                "path", located.where, "HOME is not set, so ~ means nothing", "write the whole path"
            )
        elif text.startswith("~"):
            self._problems.add("path", located.where, "~name is not read here", "write ~/ or the whole path")
        return str(Path(located.where.file).parent / text)


def _dict(located: Located | None) -> Mapping[str, Located]:
    return located.value if located is not None and isinstance(located.value, dict) else {}


def _plain(located: Located | None) -> dict[str, Any]:
    return {key: value.value for key, value in _dict(located).items()}


def _texts(located: Located) -> list[str]:
    items = located.value if isinstance(located.value, tuple) else ()
    return [str(item.value) for item in items]


def _broken(located: Located) -> bool:
    """Whether anything in it could not be read."""
    value = located.value
    if isinstance(value, dict):
        return any(_broken(inner) for inner in value.values())
    if isinstance(value, tuple):
        return any(isinstance(inner, Located) and _broken(inner) for inner in value)
    return value is INVALID
