"""A base as data: which SGLang it is, how it is pinned, what it needs, and how it chooses its worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specctl.route.model import RouteRules


@dataclass(frozen=True)
class WheelSource:
    """A wheel that its project published. `sha256` is over the file."""

    file: str
    sha256: str
    size: int  # bytes


@dataclass(frozen=True)
class GitSource:
    """A commit of a repository whose `subdirectory` is built. `sha256` is over the files of that folder."""

    url: str  # a remote, a mirror, or the path of a local clone; never with credentials
    ref: str  # as it was asked for: a tag, a branch, a commit
    commit: str
    subdirectory: str
    sha256: str


@dataclass(frozen=True)
class TreeSource:
    """A checkout on this machine. `sha256` is over the files of the folder that holds sglang/."""

    path: str
    sha256: str


Source = WheelSource | GitSource | TreeSource


@dataclass(frozen=True)
class Lock:
    """How the full list of a base's needs for one target is made, and where the shipped copy is.

    Attributes:
        file: name below specctl/base/locks; None when none is shipped.
        requires: what it starts from.
        python: the oldest Python it is for; with `platform` the only one.
        platform: uv's name of a platform; None: one list for every platform.
        as_of: ISO 8601 time in UTC; nothing that was published later gets in.
        later: package -> time, where one must be younger than `as_of`.
    """

    target: str
    file: str | None
    requires: tuple[str, ...]
    python: str
    platform: str | None
    as_of: str
    later: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Base:
    """One base.

    Attributes:
        name: how it is asked for; a published release's name is its version.
        version: what the wheel calls itself.
        like: the release whose hook edits and routes fit; for a published release itself.
        tag, released: upstream's tag and the UTC day on which the wheel came out; None for a source base.
        python: versions, as a PEP 440 specifier, for which wheels of everything exist.
        glibc: the oldest glibc that the wheels of the needs run on.
        pins: package -> version that this base was built against: torch, the kernels, flashinfer.
        workers: worker class -> file, below site-packages.
        notes: what to know about it, one sentence each.
        origin: where the record was read, for messages.
    """

    name: str
    version: str
    like: str
    source: Source
    tag: str | None
    released: str | None
    python: str
    glibc: str
    pins: Mapping[str, str]
    workers: Mapping[str, str]
    locks: Mapping[str, Lock]
    route: RouteRules | None
    notes: tuple[str, ...] = ()
    origin: str = ""

    @property
    def sha256(self) -> str:
        """The pin: of the published wheel, or of the source tree."""
        return self.source.sha256

    @property
    def kind(self) -> str:
        return {"WheelSource": "wheel", "GitSource": "git", "TreeSource": "tree"}[type(self.source).__name__]
