"""Several overlays on one base, worked out in the base's own lines. Pure: no disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from packaging.version import InvalidVersion, Version

from specctl.overlay.errors import OverlayConflict, Problem, UnsupportedBaseError
from specctl.overlay.model import FileEdit, Overlay, sha256
from specctl.overlay.splice import misfits, overlaps, splice, unsplice

OwnedEdit = tuple[str, FileEdit]  # overlay's name, its edit


@dataclass(frozen=True)
class Recognised:
    """A file's content explained: the base's bytes, and which overlays are in the content."""

    base: bytes
    applied: frozenset[str]


@dataclass(frozen=True)
class Composition:
    """Overlays chosen for one base, in the order of their manifests.

    Attributes:
        edits: edited path -> who edits it, in overlay order.
        modules: added path -> (overlay, bytes).
    """

    base_version: str
    overlays: tuple[Overlay, ...]
    edits: Mapping[str, tuple[OwnedEdit, ...]]
    modules: Mapping[str, tuple[str, bytes]]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(overlay.name for overlay in self.overlays)

    def base_sha256(self, path: str) -> str:
        return self.edits[path][0][1].base_sha256

    def render(self, read: Callable[[str], bytes]) -> dict[str, bytes]:
        """New content of every edited and added file, by path below site-packages, sorted.

        Args:
            read: gives the base's own bytes of such a path; raises FileNotFoundError or KeyError without one.

        Raises:
            OverlayConflict: the bytes are not the pinned base's, a hunk does not fit to the byte, or a module
                would hide a file of the base; with all problems.
        """
        out: dict[str, bytes] = {}
        problems: list[Problem] = []
        for path, owned in self.edits.items():
            who = tuple(name for name, _ in owned)
            base = _read(read, path)
            if base is None:
                problems.append(Problem("the base has no such file", path=path, overlays=who))
                continue
            found = self.render_file(path, base, self.names)
            if isinstance(found, bytes):
                out[path] = found
            else:
                problems += found
        for path, (name, data) in self.modules.items():
            there = _read(read, path)
            if there is not None and there != data:
                problems.append(
                    Problem("the base has a file where this module belongs", path=path, overlays=(name,))
                )
            out[path] = data
        if problems:
            raise OverlayConflict(
                f"the overlays do not fit this {self.base_version}",
                problems,
                hint="see what differs: specctl overlay status TREE",
            )
        return dict(sorted(out.items()))

    def render_file(self, path: str, base: bytes, wanted: Collection[str]) -> bytes | list[Problem]:
        """One edited file with the edits of the `wanted` overlays, or why they do not fit."""
        owned = [(name, edit) for name, edit in self.edits[path] if name in wanted]
        who = tuple(name for name, _ in owned)
        problems = overlaps(owned) if owned else []
        if sha256(base) != self.base_sha256(path):
            problems.append(
                Problem(
                    "its bytes are not the pinned base's",
                    path=path,
                    overlays=who,
                    detail=f"- sha256 {self.base_sha256(path)}\n+ sha256 {sha256(base)}",
                )
            )
        for name, edit in owned:
            problems += misfits(base, edit, name)
        if problems:
            return problems
        new = splice(base, [change for _, edit in owned for change in edit.changes])
        if new is None:
            return [Problem("an edit leaves a line without its end in the middle of the file", path, who)]
        return new

    def recognise(self, path: str, data: bytes) -> Recognised | None:
        """Find the overlays whose edits, taken out of `data`, leave exactly the base; None when none do.

        The hash of the base decides, so a file that was edited by hand beside our edits is never recognised.
        """
        pinned = self.base_sha256(path)
        for chosen in _subsets(self.edits[path]):
            base = unsplice(data, [change for _, edit in chosen for change in edit.changes])
            if base is not None and sha256(base) == pinned:
                return Recognised(base, frozenset(name for name, _ in chosen))
        return None


def compose(overlays: Sequence[Overlay], base_version: str) -> Composition:
    """Lay overlays over one base.

    Args:
        base_version: a release such as 0.5.9; a local part (`+specctl.1`) is ignored.

    Raises:
        UnsupportedBaseError: an overlay holds no pins for the base.
        OverlayConflict: two overlays edit the same lines, bring the same module, or pin different bytes.
    """
    version = public(base_version)
    missing = [o for o in overlays if version not in o.bases]
    if missing:
        raise UnsupportedBaseError(
            f"{', '.join(o.name for o in missing)} holds no pins for SGLang {version}",
            context={o.name: "pinned for " + (", ".join(o.bases) or "no base") for o in missing},
            hint=f"pin it: specctl overlay pin {missing[0].name} --base-tree DIR --edited-tree DIR",
        )
    composition = gather(overlays, version)
    problems = clashes(composition)
    if problems:
        raise OverlayConflict(
            f"overlays conflict with each other on SGLang {version}",
            problems,
            hint="move the edits apart, or leave one of the overlays out",
        )
    return composition


def gather(overlays: Sequence[Overlay], version: str) -> Composition:
    """A composition without any check; overlays that hold no pins for `version` are left out."""
    ordered = sorted((o for o in overlays if version in o.bases), key=lambda o: (o.order, o.name))
    edits: dict[str, tuple[OwnedEdit, ...]] = {}
    modules: dict[str, tuple[str, bytes]] = {}
    for overlay in ordered:
        for path, edit in overlay.bases[version].edits.items():
            edits[path] = (*edits.get(path, ()), (overlay.name, edit))
        for path, data in overlay.modules.items():
            modules.setdefault(path, (overlay.name, data))
    return Composition(version, tuple(ordered), dict(sorted(edits.items())), dict(sorted(modules.items())))


def clashes(composition: Composition) -> list[Problem]:
    """Every way in which the overlays of a composition exclude each other."""
    problems: list[Problem] = []
    for path, owned in composition.edits.items():
        problems += overlaps(owned)
        who = tuple(name for name, _ in owned)
        if len({edit.base_sha256 for _, edit in owned}) > 1:
            problems.append(Problem("the overlays pin different bytes of this file", path=path, overlays=who))
        if path in composition.modules:
            owner = composition.modules[path][0]
            problems.append(Problem("one edits what the other adds", path=path, overlays=(*who, owner)))
    for overlay in composition.overlays:
        for path in overlay.modules:
            owner = composition.modules[path][0]
            if owner != overlay.name:
                problems.append(Problem("both add this module", path=path, overlays=(owner, overlay.name)))
    return problems


def public(version: str) -> str:
    """A version without its local part; a text that is no version stays as it is."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def _subsets(owned: Sequence[OwnedEdit]) -> Iterator[tuple[OwnedEdit, ...]]:
    for size in range(len(owned) + 1):
        for chosen in combinations(owned, size):
            if not overlaps(chosen):
                yield chosen


def _read(read: Callable[[str], bytes], path: str) -> bytes | None:
    try:
        return read(path)
    except (FileNotFoundError, KeyError):
        return None
