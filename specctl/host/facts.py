"""What is known about a host, read in one round trip that changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from specctl.config.arguments import DRAFT_MODEL, find
from specctl.config.model import HostConfig, ServerConfig
from specctl.host import programs
from specctl.host.protocol import Host
from specctl.host.shape import shaped


@dataclass(frozen=True)
class PythonFact:
    """One interpreter that was looked for; `path` is None when it is not there."""

    name: str
    path: str | None
    version: str | None  # 3.11.2
    venv: bool
    ensurepip: bool


@dataclass(frozen=True)
class FolderFact:
    """One folder that a deploy writes to; the facts are of its nearest parent where it does not exist."""

    purpose: str  # "root" | "temporary" | "shared memory"
    path: str
    exists: bool
    mount: str
    read_only: bool
    writable: bool  # by the user of the connection
    noexec: bool
    free_bytes: int
    free_inodes: int | None  # None: the file system does not count them


@dataclass(frozen=True)
class PlaceFact:
    """The root, or a folder above it: whoever may write there can put another root in its place."""

    path: str
    owner: str  # name, or the number where it has none
    uid: int
    mode: int  # permission bits
    shared: bool = False  # its group has other members than the owner


@dataclass(frozen=True)
class GpuFact:
    """One GPU as nvidia-smi lists it."""

    index: int
    name: str
    memory_mib: int | None
    used_mib: int | None
    driver: str
    compute: str | None  # 9.0; None where the driver does not say


@dataclass(frozen=True)
class ReleaseFact:
    """One folder below <root>/releases. What its files mean is for `specctl.release` to say."""

    id: str
    entries: tuple[str, ...]  # names in the folder
    documents: Mapping[
        str, Any
    ]  # dist.json and the marker files that hold JSON -> content, None if unreadable
    python: str | None  # of its environment


@dataclass(frozen=True)
class ServerFact:
    """One folder below <root>/servers."""

    name: str
    current: str | None  # id of the release that `current` names
    resolves: bool  # whether that release is there


@dataclass(frozen=True)
class ModelFact:
    """What lies on the host under a model's path or name."""

    name: str
    found: str | None
    config: Mapping[str, Any] | None  # architectures and a few more keys of config.json
    bytes: int | None = None  # of its weights

    @property
    def architectures(self) -> tuple[str, ...]:
        names = (self.config or {}).get("architectures")
        return tuple(str(name) for name in names) if isinstance(names, list) else ()


@dataclass(frozen=True)
class Facts:
    """One host at one moment. None means: could not be found out; `problems` says why where it is known."""

    host: str
    user: str
    uid: int
    sudo: str  # "root" | "works" | "refused" | "missing"
    skew_s: float  # host's clock minus ours
    skew_error_s: float  # by how much that may be wrong: half the round trip
    host_python: str  # version of the Python that looked
    os: str | None = None
    os_version: str | None = None
    kernel: str | None = None
    machine: str | None = None
    glibc: str | None = None  # 2.36
    cpus: int | None = None
    memory_bytes: int | None = None
    boot_id: str | None = None
    systemd: int | None = None  # version; None: no systemd
    system_state: str | None = None  # running, degraded, ...
    user_manager: str | None = None
    linger: bool = False
    supervisord: str | None = None
    gpus: tuple[GpuFact, ...] | None = None  # None: no nvidia-smi
    tools: Mapping[str, str | None] = field(default_factory=dict)
    ports: tuple[int, ...] = ()  # TCP ports that something listens on
    pythons: tuple[PythonFact, ...] = ()
    folders: tuple[FolderFact, ...] = ()
    places: tuple[PlaceFact, ...] = ()  # from / down to the root, as far as it exists
    releases: tuple[ReleaseFact, ...] = ()
    servers: tuple[ServerFact, ...] = ()
    lock: Mapping[str, Any] | None = None  # file name in <root>/lock -> content; None: not locked
    models: tuple[ModelFact, ...] = ()
    problems: tuple[str, ...] = ()

    def folder(self, purpose: str) -> FolderFact | None:
        """The folder of one purpose."""
        return next((folder for folder in self.folders if folder.purpose == purpose), None)

    def python(self, name: str) -> PythonFact | None:
        """What was found under an interpreter's name or path."""
        return next((python for python in self.pythons if python.name == name), None)

    def model(self, name: str | None) -> ModelFact | None:
        """What was found under a model's path or name."""
        return next((model for model in self.models if model.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, field by field."""
        return asdict(self)


def gather(host: Host, config: HostConfig, *, clock: Callable[[], float] = time.time) -> Facts:
    """Read everything that doctor and plan need, in one call of `Host.script`.

    Args:
        clock: seconds since 1970 on this machine, UTC.

    Raises:
        Unreachable, HostTimeout, PythonMissing: the host could not be asked.
        HostError: it answered something else than facts.
    """
    interpreters = [config.python]
    if config.adopt:
        interpreters.append(f"{config.adopt.rstrip('/')}/bin/python")
    params = {
        "root": config.root,
        "python": list(dict.fromkeys(interpreters)),
        "sudo": config.sudo,
        "models": sorted(set(_models(config.servers))),
        "temporary": sorted({server.env.get("TMPDIR") or "/tmp" for server in config.servers}),
    }
    asked = clock()
    raw = host.script(programs.source("facts"), params, python=config.python)
    answered = clock()
    return parse(host.name, raw, asked=asked, answered=answered)


def draft_of(server: ServerConfig) -> str | None:
    """The draft model's path among a server's arguments."""
    given = find(server.args, DRAFT_MODEL)
    return given.value if given else None


def _models(servers: Iterable[ServerConfig]) -> Iterable[str]:
    for server in servers:
        yield server.model
        draft = draft_of(server)
        if draft:
            yield draft


def parse(host: str, raw: object, *, asked: float, answered: float) -> Facts:
    """Facts from the answer of the program `facts`; `asked` and `answered` are our clock around the call.

    Raises:
        HostError: the answer does not look like that program's.
    """
    return shaped(host, "facts", raw, lambda found: _facts(host, found, asked, answered))


def _facts(host: str, raw: Mapping[str, Any], asked: float, answered: float) -> Facts:
    def many(name: str) -> list[dict[str, Any]]:
        return raw.get(name) or []

    services = dict(raw.get("services") or {})
    return Facts(
        host=host,
        user=raw["user"],
        uid=raw["uid"],
        sudo=raw["sudo"],
        skew_s=round(raw["clock"] - (asked + answered) / 2, 3),
        skew_error_s=round((answered - asked) / 2, 3),
        host_python=raw["host_python"],
        **(raw.get("system") or {}),
        **services,
        gpus=None if raw.get("gpus") is None else tuple(_gpu(row) for row in raw["gpus"]),
        tools=raw.get("tools") or {},
        ports=tuple(raw.get("ports") or ()),
        pythons=tuple(PythonFact(**row) for row in many("pythons")),
        folders=tuple(FolderFact(**row) for row in many("folders")),
        places=tuple(PlaceFact(**row) for row in many("places")),
        releases=tuple(ReleaseFact(**{**row, "entries": tuple(row["entries"])}) for row in many("releases")),
        servers=tuple(ServerFact(**row) for row in many("servers")),
        lock=raw.get("lock"),
        models=tuple(ModelFact(**row) for row in many("models")),
        problems=tuple(raw.get("problems") or ()),
    )


def _gpu(row: Mapping[str, str]) -> GpuFact:
    compute = row.get("compute_cap", "")
    return GpuFact(
        index=int(row["index"]),
        name=row["name"],
        memory_mib=_whole(row["memory.total"]),
        used_mib=_whole(row["memory.used"]),
        driver=row["driver_version"],
        compute=compute if compute.replace(".", "").isdigit() else None,
    )


def _whole(text: str) -> int | None:
    """A number of MiB; nvidia-smi writes [N/A] where it does not know."""
    return int(text) if text.isdigit() else None
