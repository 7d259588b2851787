"""What a command line selects, and the rules by which one SGLang release selects it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class WorkerClasses:
    """The worker classes of one algorithm; None where the release has no such class."""

    sync: str | None  # without the overlap scheduler ("V1")
    overlap: str | None  # with it ("V2")


@dataclass(frozen=True)
class RouteRules:
    """How one release goes from server arguments to a worker class. Read in that release's own source.

    Attributes:
        options: name of the data file with the release's server arguments.
        aliases: algorithm as it may be given -> algorithm that runs.
        algorithms: algorithm -> its classes. Algorithms in `eagle_like` share the checks of EAGLE.
        multi_layer: classes for EAGLE and EAGLE3 with --enable-multi-layer-eagle.
        multi_layer_architectures: models that turn multi-layer EAGLE and spec V2 on by themselves.
        variable: environment variable that asks for spec V2; off when unset.
        files: class -> file, below site-packages.
        auto: architecture -> (steps, topk, draft tokens) that the release chooses; "" is the default.
        request_limit: --max-running-requests that speculation sets when it is not given.
    """

    options: str
    aliases: Mapping[str, str]
    algorithms: Mapping[str, WorkerClasses]
    eagle_like: tuple[str, ...]
    multi_layer: WorkerClasses
    multi_layer_architectures: tuple[str, ...]
    variable: str
    files: Mapping[str, str]
    auto: Mapping[str, tuple[int, int, int]]
    request_limit: int

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> RouteRules:
        """From the `route:` mapping of a base record; a missing key is a KeyError."""
        return cls(
            options=str(raw["options"]),
            aliases=dict(raw["aliases"]),
            algorithms={name: WorkerClasses(**classes) for name, classes in raw["algorithms"].items()},
            eagle_like=tuple(raw["eagle_like"]),
            multi_layer=WorkerClasses(**raw["multi_layer"]),
            multi_layer_architectures=tuple(raw["multi_layer_architectures"]),
            variable=str(raw["variable"]),
            files=dict(raw["files"]),
            auto={str(arch): _triple(values) for arch, values in raw["auto"].items()},
            request_limit=int(raw["request_limit"]),
        )


@dataclass(frozen=True)
class Route:
    """The worker class that a command line selects, and why.

    Attributes:
        worker: class name; None without speculation, and None when the server would refuse to start.
        overlap: whether the overlap scheduler runs.
        reasons: why, one sentence per rule that decided, in the order in which SGLang applies them.
        problems: why this server would not start; empty when it would.
        warnings: what starts but is likely not meant.
        file: where the class is, below site-packages.
        algorithm: after aliases; None without speculation.
        steps, topk, draft_tokens: as the server will use them; None where that needs the model's files.
        max_running_requests: limit of the running batch in requests; None where SGLang derives it later.
    """

    base: str
    worker: str | None
    overlap: bool
    reasons: tuple[str, ...]
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    file: str | None = None
    algorithm: str | None = None
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    max_running_requests: int | None = None

    @property
    def starts(self) -> bool:
        return not self.problems


@dataclass
class Trace:
    """What the rules said so far; filled by `rules.decide`, frozen into a `Route` at its end."""

    overlap: bool = True
    reasons: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    max_running_requests: int | None = None


def _triple(values: Sequence[int]) -> tuple[int, int, int]:
    steps, topk, draft_tokens = (int(value) for value in values)
    return steps, topk, draft_tokens
