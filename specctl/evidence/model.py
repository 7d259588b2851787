"""Evidence: what was expected, what was seen, and where. `verify` collects it; `deploy` gates on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Verdict(str, Enum):
    """PASS, FAIL, or UNKNOWN where it could not be looked at (which never counts as a pass)."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Kind(str, Enum):
    """The six kinds of evidence, in the order in which they are collected."""

    PROCESS = "process"
    INSTALL = "install"
    ROUTE = "route"
    MARKER = "marker"
    ALIVE = "alive"
    BEHAVIOUR = "behaviour"


@dataclass(frozen=True)
class Evidence:
    """One finding. `code` names the verdict for programs, e.g. "marker-stale" or "marker-wrong-worker"."""

    kind: Kind
    verdict: Verdict
    code: str
    expected: str
    seen: str
    where: str  # command, file, URL or journal cursor
    hint: str | None = None


@dataclass(frozen=True)
class Marker:
    """The overlay's log line at worker init, parsed."""

    worker: str  # EAGLEWorker | EAGLEWorkerV2
    threshold: int
    resume: int
    resume_steps: int
    draft_sync: str
    tp_rank: int
    tp_size: int
    raw: str


@dataclass(frozen=True)
class Expectation:
    """What the plan says must be seen for one server."""

    server: str
    distribution: str  # exact version, e.g. 0.5.9+specctl.1
    files: Mapping[str, str]  # path below site-packages -> sha256, of every overlaid file
    worker: str | None  # predicted class; None: no speculation, so no marker is expected
    threshold: int | None = None  # None: the flag is not set, so no marker is expected
    resume: int | None = None  # None: the overlay's default, not compared
    resume_steps: int | None = None
    draft_sync: str | None = None
    ranks: tuple[int, ...] = (0,)  # tensor-parallel ranks whose marker must be seen
    url: str = ""  # as reached from the host itself, e.g. http://127.0.0.1:30000
    tp_size: int | None = None  # tensor-parallel size over all nodes; None: not compared
    reasons: tuple[str, ...] = ()  # why the arguments select `worker`, one sentence per rule
    problems: tuple[str, ...] = ()  # why the server would refuse these arguments
    covers: tuple[str, ...] = ()  # worker classes whose file the distribution overlays


@dataclass(frozen=True)
class Report:
    """All evidence of one server on one host, from one moment."""

    host: str
    server: str
    release: str
    taken_at: str  # ISO 8601, UTC
    evidence: tuple[Evidence, ...] = field(default_factory=tuple)

    @property
    def ok(self) -> bool:
        return bool(self.evidence) and all(e.verdict is Verdict.PASS for e in self.evidence)
