"""An overlay as data: what it edits, what it pins, why it exists. Everything here is frozen and pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class State(str, Enum):
    """What a tree says about one file of one overlay. Only CLEAN and APPLIED are good news."""

    CLEAN = "clean"
    APPLIED = "applied"
    LANDED = "landed-upstream"
    DRIFTED = "drifted"
    CONFLICT = "conflict"
    FOREIGN = "foreign-edit"

    @property
    def good(self) -> bool:
        return self in (State.CLEAN, State.APPLIED)


class UpstreamStatus(str, Enum):
    """How far an edit is on its way into SGLang."""

    OURS = "ours"  # not meant for upstream
    REPORTED = "reported"
    PROPOSED = "proposed"
    MERGED = "merged"
    REJECTED = "rejected"


@dataclass(frozen=True)
class LandedRule:
    """A text that a file holds only when upstream has the change. All rules of an edit must hold."""

    path: str
    contains: str
    base: str | None = None  # the rule counts only for trees of this release; None: for every release


@dataclass(frozen=True)
class Upstream:
    """Where the change stands upstream and how to see in a tree that it landed."""

    status: UpstreamStatus
    reports: tuple[str, ...] = ()  # links or numbers
    landed_in: str | None = None  # first release that holds it
    landed: tuple[LandedRule, ...] = ()


@dataclass(frozen=True)
class EditNote:
    """Reason and upstream status of the edits in one file, where they differ from the overlay's own."""

    reason: str
    upstream: Upstream | None = None


@dataclass(frozen=True)
class Change:
    """One run of lines that an edit replaces. `start` is the 0-based line in the base."""

    start: int
    removed: tuple[bytes, ...]
    added: tuple[bytes, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.removed)


@dataclass(frozen=True)
class Hunk:
    """One hunk of a unified diff. `old` and `new` are whole lines with their line ends, context included."""

    start: int  # 0-based line in the base of the first line of `old`
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    changes: tuple[Change, ...]

    @property
    def lines(self) -> str:
        """Place in the base for people, e.g. "12-17"."""
        return f"{self.start + 1}-{max(self.start + len(self.old), self.start + 1)}"


@dataclass(frozen=True)
class FunctionPin:
    """A function (or class, or `<module>`) of the base that hunks of ours edit."""

    name: str
    sha256: str  # of its source in the base; nested functions and classes of a class or module left out
    hunks: tuple[int, ...]  # indices into FileEdit.hunks


@dataclass(frozen=True)
class FileEdit:
    """The hook edits of one overlay in one file of one base."""

    path: str
    base_sha256: str
    patch: str  # path of the diff below the overlay's folder
    hunks: tuple[Hunk, ...]
    functions: tuple[FunctionPin, ...]
    # False when the base holds lines like the added ones already: they are then no sign of having landed
    telling: bool = True

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for hunk in self.hunks for change in hunk.changes)


@dataclass(frozen=True)
class BasePins:
    """All that an overlay pins of one base."""

    version: str
    edits: Mapping[str, FileEdit]


@dataclass(frozen=True)
class Overlay:
    """One overlay, read and checked. `sha256` covers the manifest, pins, diffs and modules."""

    name: str
    summary: str
    reason: str
    order: int
    upstream: Upstream
    root: Path = field(compare=False)
    sha256: str
    bases: Mapping[str, BasePins]
    modules: Mapping[str, bytes]  # path below site-packages -> bytes
    notes: Mapping[str, EditNote] = field(default_factory=dict)

    def upstream_of(self, path: str) -> Upstream:
        """The upstream status that counts for the edits in `path`."""
        note = self.notes.get(path)
        return note.upstream if note and note.upstream else self.upstream

    def reason_of(self, path: str) -> str:
        """The reason that counts for the edits in `path`."""
        return self.notes[path].reason if path in self.notes else self.reason


def sha256(data: bytes) -> str:
    """Hex digest; the only hash that overlays use."""
    return hashlib.sha256(data).hexdigest()


def split_lines(data: bytes) -> list[bytes]:
    """Lines with their ends, split after LF only, as diffs do: CR stays part of its line."""
    lines = data.split(b"\n")
    tail = lines.pop()
    return [line + b"\n" for line in lines] + ([tail] if tail else [])
