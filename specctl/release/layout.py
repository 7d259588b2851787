"""Where everything lies on a host. Pure: only names, no host is touched."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specctl.errors import UsageError

COMPLETE = "COMPLETE"  # JSON: when, by whom; written last, so that half a release never has it
FAILED = "FAILED"  # JSON: when, step, reason; a release that has it is never a rollback target
JOURNAL = "journal.jsonl"

_RELEASE_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*-[0-9a-f]{8}\Z")
_SERVER_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*\Z")


@dataclass(frozen=True)
class ReleasePaths:
    """One release folder."""

    root: str
    id: str

    @property
    def folder(self) -> str:
        return f"{self.root}/releases/{self.id}"

    @property
    def venv(self) -> str:
        return f"{self.folder}/venv"

    @property
    def python(self) -> str:
        return f"{self.venv}/bin/python"

    @property
    def dist_json(self) -> str:
        return f"{self.folder}/dist.json"

    @property
    def journal(self) -> str:
        return f"{self.folder}/{JOURNAL}"


@dataclass(frozen=True)
class ServerPaths:
    """One server's folder."""

    root: str
    name: str

    @property
    def folder(self) -> str:
        return f"{self.root}/servers/{self.name}"

    @property
    def current(self) -> str:
        """The symbolic link that names the release this server runs."""
        return f"{self.folder}/current"

    @property
    def secrets(self) -> str:
        """The environment file with secret values, mode 0600."""
        return f"{self.folder}/secrets.env"


@dataclass(frozen=True)
class Layout:
    """Every path below one host's root."""

    root: str

    def release(self, release_id: str) -> ReleasePaths:
        """Paths of one release.

        Raises:
            UsageError: the text is not a release id (it could leave the releases folder).
        """
        if not _RELEASE_ID.match(release_id):
            raise UsageError(
                f"{release_id!r} is not a release id",
                code="release-id",
                hint="a release id looks like 0.5.9+specctl.1-1a2b3c4d; specctl history lists them",
            )
        return ReleasePaths(self.root, release_id)

    def journal(self, release_id: str) -> str:
        """The journal of a run about a release; of the root itself when it is about none."""
        return self.release(release_id).journal if release_id else f"{self.root}/{JOURNAL}"

    def server(self, name: str) -> ServerPaths:
        """Paths of one server.

        Raises:
            UsageError: the name could leave the servers folder.
        """
        if not _SERVER_NAME.match(name):
            raise UsageError(f"{name!r} is not a server name", code="server-name")
        return ServerPaths(self.root, name)

    @property
    def history(self) -> str:
        """One line for each run on this host."""
        return f"{self.root}/history.jsonl"

    @property
    def wheels(self) -> str:
        """Wheels pushed for hosts without an index, shared by all releases."""
        return f"{self.root}/wheels"

    @property
    def cache(self) -> str:
        return f"{self.root}/cache/uv"

    @property
    def tmp(self) -> str:
        """Temporary files of installs: on the releases' own file system, so that its room is what counts."""
        return f"{self.root}/cache/tmp"

    def uv(self, version: str) -> str:
        return f"{self.root}/bin/uv-{version}"
