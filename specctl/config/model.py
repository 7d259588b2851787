"""What an inventory says, after every inheritance is resolved: frozen dataclasses, no defaults left open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Supervisor(str, Enum):
    """What starts and restarts the server on the host."""

    SYSTEMD = "systemd"
    SYSTEMD_USER = "systemd-user"
    SUPERVISOR = "supervisor"  # the PyPI package, for hosts without systemd


class EnvironmentKind(str, Enum):
    """LOCKED: a whole venv from the lock. ADOPTED: a thin venv over an environment that already serves."""

    LOCKED = "locked"
    ADOPTED = "adopted"


class Target(str, Enum):
    """Which lock of the base a host installs: upstream's CUDA pins, or the CPU build for tests and demo."""

    CUDA = "cuda"
    CPU = "cpu"


class HostKeys(str, Enum):
    """STRICT: unknown and changed keys are refused. ACCEPT_NEW: an unknown key is recorded."""

    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


@dataclass(frozen=True)
class SecretRef:
    """Where a secret comes from; its value is read at apply time and is in no plan, log or argv."""

    kind: str  # "env" | "file" | "command"
    source: str  # variable name, path, or command line


@dataclass(frozen=True)
class SshConfig:
    """How to reach one host. `jumps` are hops in order, each with its own options."""

    address: str
    port: int = 22
    user: str | None = None
    identity_file: str | None = None
    jumps: tuple[SshConfig, ...] = ()
    known_hosts: str | None = None  # None: ~/.ssh/known_hosts
    host_keys: HostKeys = HostKeys.STRICT
    connect_timeout_s: float = 10.0
    command_timeout_s: float = 120.0
    config_file: str | None = None  # None: ~/.ssh/config when it exists; "none": not read
    identities_only: bool | None = None  # True: offer no agent keys; None: as ~/.ssh/config says
    explicit: frozenset[str] = frozenset()  # fields the inventory sets; ~/.ssh/config may fill the others


@dataclass(frozen=True)
class ThresholdPolicy:
    """The overlay's four flags; None leaves the overlay's default."""

    disable: int  # --speculative-disable-batch-threshold, requests in the decode batch
    resume: int | None = None  # --speculative-resume-batch-threshold, requests
    resume_steps: int | None = None  # --speculative-resume-steps, decode steps
    draft_sync: str | None = None  # --speculative-disable-draft-sync: lazy | warm | cold


@dataclass(frozen=True)
class Timers:
    """Seconds."""

    start_s: float = 900.0  # from restart to healthy; a first start may compile kernels
    hold_s: float = 20.0  # healthy without a restart for this long
    stop_s: float = 120.0  # from SIGTERM to SIGKILL of the old process group


@dataclass(frozen=True)
class ServerConfig:
    """One SGLang process group on one host."""

    name: str
    model: str
    port: int
    bind: str = "127.0.0.1"
    gpus: tuple[int, ...] = ()  # empty: CUDA_VISIBLE_DEVICES is left alone
    args: tuple[str, ...] = ()  # further arguments of sglang.launch_server, in order
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretRef] = field(default_factory=dict)  # environment variable -> where from
    threshold: ThresholdPolicy | None = None
    timers: Timers = Timers()
    # Arguments whose value is a secret ("--api-key" -> where from). They travel in `secret_file`, a YAML
    # file of mode 0600 on the host that SGLang reads with --config, so that they are in no argv.
    secret_args: Mapping[str, SecretRef] = field(default_factory=dict)
    secret_file: str | None = None  # path on the host; None when there are no secret_args


@dataclass(frozen=True)
class HostConfig:
    """One host of the inventory, with everything it inherited."""

    name: str
    ssh: SshConfig
    servers: tuple[ServerConfig, ...]
    base: str = "0.5.9"
    overlays: tuple[str, ...] = ("known-faults", "dynamic-disable")
    root: str = "/opt/specctl"
    sudo: bool = False  # everything on the host runs as root, by `sudo -n`
    sudo_units: bool = False  # `sudo: units`: nothing but systemctl does, for the units of these servers
    supervisor: Supervisor = Supervisor.SYSTEMD
    environment: EnvironmentKind = EnvironmentKind.LOCKED
    adopt: str | None = None  # the environment to adopt: the folder that holds bin/python
    python: str = "python3"  # the interpreter the venv is made from
    target: Target = Target.CUDA
    wheelhouse: str | None = None  # a folder on the operator's machine, pushed; None: the host's own index
    keep_releases: int = 3
    connection: str = "ssh"  # "ssh" | "local"
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """All hosts of one file (or of all files of a folder), in the file's order."""

    path: Path
    hosts: tuple[HostConfig, ...]
    groups: Mapping[str, tuple[str, ...]]  # group -> host names, ranges expanded
    warnings: tuple[str, ...] = ()  # what is allowed but is probably not meant, with file and line
