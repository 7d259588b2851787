"""How `specctl overlay` shows overlays and findings, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from specctl.cli.output import Output
from specctl.overlay.finding import Finding, verdicts, worst
from specctl.overlay.model import Overlay
from specctl.overlay.tree import Tree


def summary_json(item: Overlay) -> dict[str, object]:
    """One overlay in a list."""
    return {
        "name": item.name,
        "summary": item.summary,
        "order": item.order,
        "sha256": item.sha256,
        "bases": list(item.bases),
        "upstream": {
            "status": item.upstream.status.value,
            "reports": list(item.upstream.reports),
            "landed_in": item.upstream.landed_in,
        },
    }


def overlay_json(item: Overlay) -> dict[str, object]:
    """One overlay with all that it pins."""
    edits = {
        base: [
            {
                "file": edit.path,
                "patch": edit.patch,
                "hunks": len(edit.hunks),
                "base_sha256": edit.base_sha256,
                "functions": {f.name: f.sha256 for f in edit.functions},
                "reason": item.reason_of(edit.path),
                "upstream": item.upstream_of(edit.path).status.value,
            }
            for edit in pins.edits.values()
        ]
        for base, pins in item.bases.items()
    }
    return summary_json(item) | {"reason": item.reason, "edits": edits, "modules": sorted(item.modules)}


def print_list(out: Output, overlays: Sequence[Overlay]) -> None:
    """A table with one row per overlay."""
    rows = [
        (o.name, ", ".join(o.bases) or "-", o.upstream.status.value, o.sha256[:12], o.summary)
        for o in overlays
    ]
    out.table(("overlay", "bases", "upstream", "sha256", "summary"), rows)


def print_overlay(out: Output, item: Overlay) -> None:
    """All that a person wants to know about one overlay."""
    landed = f", landed in {item.upstream.landed_in}" if item.upstream.landed_in else ""
    out.line(f"{item.name}: {item.summary}")
    out.line(f"sha256    {item.sha256}")
    out.line(f"upstream  {item.upstream.status.value}{landed} {' '.join(item.upstream.reports)}".rstrip())
    out.line(f"reason    {' '.join(item.reason.split())}")
    for base, pins in item.bases.items():
        rows = [
            (e.path, str(len(e.hunks)), ", ".join(f.name for f in e.functions), e.base_sha256[:12])
            for e in pins.edits.values()
        ]
        out.line("")
        out.table(("file", "hunks", "functions", "base sha256"), rows, title=f"hook edits on {base}")
    for path, note in item.notes.items():
        out.line(f"{path}: {' '.join(note.reason.split())} [{item.upstream_of(path).status.value}]")
    if item.modules:
        out.line("")
        out.table(
            ("module", "bytes"), [(path, str(len(data))) for path, data in sorted(item.modules.items())]
        )


def status_json(tree: Tree, findings: Sequence[Finding]) -> dict[str, object]:
    """The judged tree as one document."""
    return {
        "tree": str(tree.root),
        "kind": tree.kind.value,
        "version": tree.version,
        "record_checked": tree.recorded is not None,
        "state": worst(f.state for f in findings).value,
        "overlays": {name: state.value for name, state in verdicts(findings).items()},
        "findings": [f.as_dict() for f in findings],
    }


def print_status(out: Output, tree: Tree, findings: Sequence[Finding]) -> None:
    """A row per finding, then what differs and what to do for each that is not good news."""
    rows = [
        (f.overlay or "-", f.path or "(the overlay)", f.function or "-", f.state.value, f.message)
        for f in findings
    ]
    version = tree.version or "of unknown version"
    out.table(
        ("overlay", "file", "function", "state", "what"), rows, title=f"sglang {version} in {tree.root}"
    )
    bad = [f for f in findings if not f.state.good]
    for (name, path, state, hint), group in groupby(bad, key=lambda f: (f.overlay, f.path, f.state, f.hint)):
        out.line("")
        out.line(f"{state.value}: {' '.join(filter(None, (path, name and f'[{name}]')))}")
        for finding in group:
            out.line(
                f"  {finding.function}: {finding.message}" if finding.function else f"  {finding.message}"
            )
            for line in finding.detail.splitlines():
                out.line(f"    {line}")
        if hint:
            out.line(f"  hint: {hint}")
    if tree.recorded is None:
        out.note("there is no RECORD: only the files that overlays touch were looked at")
