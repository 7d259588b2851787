"""What a check gets: one host, or one server of it, and a short way to say what is wrong where."""

from __future__ import annotations

from dataclasses import dataclass

from specctl.config.arguments import Given, LaunchFlag, find, number
from specctl.config.model import HostConfig, ServerConfig
from specctl.config.problems import Problems, Where
from specctl.config.reader import Located, place
from specctl.config.resolve import PlacedHost, PlacedServer


@dataclass(frozen=True)
class HostCase:
    """One host under check."""

    problems: Problems
    warnings: Problems
    placed: PlacedHost

    @property
    def host(self) -> HostConfig:
        return self.placed.config

    @property
    def settings(self) -> Located:
        return self.placed.settings

    def at(self, *keys: str) -> Where:
        """Where a setting was written."""
        return place(self.settings, *keys)

    def refuse(self, code: str, where: Where, message: str, hint: str) -> None:
        self.problems.add(code, where, message, hint, host=self.host.name)

    def warn(self, code: str, where: Where, message: str, hint: str) -> None:
        self.warnings.add(code, where, message, hint, host=self.host.name)


@dataclass(frozen=True)
class ServerCase(HostCase):
    """One server of a host under check; `at` looks at the server's settings."""

    placed_server: PlacedServer

    @property
    def server(self) -> ServerConfig:
        return self.placed_server.config

    @property
    def settings(self) -> Located:
        return self.placed_server.settings

    def find(self, flag: LaunchFlag) -> Given | None:
        return find(self.server.args, flag)

    def number(self, flag: LaunchFlag) -> int | None:
        return number(self.server.args, flag)

    def at_argument(self, index: int) -> Where:
        """Where one argument was written."""
        args = self.settings.get("args")
        items = args.value if args is not None and isinstance(args.value, tuple) else ()
        item = items[index] if index < len(items) else args
        return item.where if isinstance(item, Located) else self.settings.where
