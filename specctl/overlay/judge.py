"""Judging a tree: each file of each overlay gets a state, the function it is about, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from packaging.version import InvalidVersion, Version

from specctl.overlay.compose import gather, public
from specctl.overlay.differs import what_differs
from specctl.overlay.finding import Finding, partial
from specctl.overlay.judge_file import FileJudge
from specctl.overlay.model import Overlay, State, sha256
from specctl.overlay.tree import Tree


def judge(tree: Tree, overlays: Sequence[Overlay], *, against: Tree | None = None) -> list[Finding]:
    """Judge a tree by all overlays that may be in it; everything is reported, nothing stops at the first.

    Args:
        overlays: every overlay that may be applied; one left out makes the files it edits look foreign.
        against: the base's own files, to show what a foreign edit changed; without it hashes decide alone.

    Returns:
        Findings in the overlays' order, then the tree's own files that differ from RECORD.

    Raises:
        TreeError: a file is there and cannot be read.
    """
    groups: dict[str, list[Overlay]] = {}
    findings: list[Finding] = []
    for overlay in sorted(overlays, key=lambda o: (o.order, o.name)):
        base = base_for(tree, overlay)
        if base is None:
            text = "it holds no pins for any base"
            hint = f"pin it: specctl overlay pin {overlay.name} --base-tree DIR --edited-tree DIR"
            findings.append(Finding(overlay.name, None, None, State.CONFLICT, text, hint=hint))
        else:
            groups.setdefault(base, []).append(overlay)
    for base, group in groups.items():
        judged = FileJudge(tree, gather(group, base), against)
        for overlay in judged.comp.overlays:
            own = judged.edits(overlay) + judged.modules(overlay)
            findings += partial(overlay.name, base, own) + _conflicts_first(own)
    explained = {finding.path for finding in findings if finding.path}
    return findings + _unrecorded(tree, explained, against)


def _conflicts_first(own: list[Finding]) -> list[Finding]:
    """An overlay is pinned as a whole: beside a conflict, a file that only drifted cannot be pinned alone."""
    if not any(finding.state is State.CONFLICT for finding in own):
        return own
    hint = "the edit fits here; it is pinned together with the overlay's conflicts"
    return [replace(f, hint=hint) if f.state is State.DRIFTED else f for f in own]


def base_for(tree: Tree, overlay: Overlay) -> str | None:
    """The base to judge by: the tree's own release, else one whose bytes it has, else the nearest before."""
    if tree.version and public(tree.version) in overlay.bases:
        return public(tree.version)
    if not overlay.bases:
        return None
    ordered = sorted(overlay.bases, key=Version)
    known = {}
    for base in ordered:
        comp = gather([overlay], base)
        contents = ((path, tree.read(path)) for path in comp.edits)
        known[base] = sum(1 for path, data in contents if data is not None and comp.recognise(path, data))
    best = max(ordered, key=lambda base: known[base])
    if known[best]:
        return best
    try:
        before = [base for base in ordered if tree.version and Version(base) <= Version(tree.version)]
    except InvalidVersion:
        before = []
    return before[-1] if before else ordered[-1]


def _unrecorded(tree: Tree, explained: set[str], against: Tree | None) -> list[Finding]:
    """Files of sglang that are not what the install put there, whether or not an overlay knows them."""
    if tree.recorded is None:
        return []
    findings = []
    for path, recorded in tree.recorded.items():
        if path in explained:
            continue
        data = tree.read(path)
        if data is None:
            findings.append(_foreign(path, "the install put it there, and it is gone"))
        elif sha256(data) != recorded:
            base = against.read(path) if against else None
            rows = what_differs(base, data) if base is not None else []
            detail = f"- sha256 {recorded}\n+ sha256 {sha256(data)}"
            for function, shown in rows or [(None, detail)]:
                findings.append(_foreign(path, "it was edited after the install", function, shown))
    for path in tree.sources():
        if path not in tree.recorded and path not in explained:
            findings.append(_foreign(path, "the install did not put it there, and no overlay brings it"))
    return findings


def _foreign(path: str, message: str, function: str | None = None, detail: str = "") -> Finding:
    hint = "install the release again, or make an overlay of the edit"
    return Finding(None, path, function, State.FOREIGN, message, detail=detail, hint=hint)
