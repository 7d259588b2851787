"""overlay.yaml: the hand-written half of an overlay.

name: known-faults                 # the folder's name
summary: One line for lists.
reason: >                          # why it exists, with the reports
  What goes wrong without it.
order: 10                          # a smaller number lies below a larger one
upstream:
  status: proposed                 # ours, reported, proposed, merged, rejected
  reports: [sgl-project/sglang#13376]
  landed_in: null                  # first release that holds it
  landed:                          # texts that only an upstream with the change holds; all must be there
    - {file: sglang/srt/a.py, contains: "def new_name(", base: 0.5.10}   # base is optional
edits:                             # optional: where a file has a reason or status of its own
  sglang/srt/a.py:
    reason: Why this file.
    upstream: {status: reported, reports: [...]}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.version import InvalidVersion, Version

from specctl.overlay.document import Document
from specctl.overlay.model import EditNote, LandedRule, Upstream, UpstreamStatus

MANIFEST = "overlay.yaml"
_KEYS = ("name", "summary", "reason", "order", "upstream", "edits")


@dataclass(frozen=True)
class Manifest:
    """What overlay.yaml says."""

    name: str
    summary: str
    reason: str
    order: int
    upstream: Upstream
    notes: dict[str, EditNote]


def read_manifest(folder: Path) -> Manifest:
    """Read and check FOLDER/overlay.yaml.

    Raises:
        ManifestError: with file and line, key, and a suggestion where one is near.
    """
    doc = Document.read(folder / MANIFEST)
    doc.only(_KEYS)
    name = doc.text("name")
    if name != folder.name:
        raise doc.error(f"the name {name!r} differs from the folder's name {folder.name!r}", key="name")
    if "upstream" not in doc:
        raise doc.error(
            "'upstream' is missing", key="upstream", hint="say at least: upstream: {status: ours}"
        )
    edits = doc.child("edits")
    notes = {}
    for path in edits.keys():  # noqa: SIM118 (a Document is no dict)
        checked_path(edits, path)
        note = edits.child(path)
        note.only(("reason", "upstream"))
        notes[path] = EditNote(
            note.text("reason"), _upstream(note.child("upstream")) if "upstream" in note else None
        )
    return Manifest(
        name=name,
        summary=doc.text("summary"),
        reason=doc.text("reason"),
        order=doc.integer("order"),
        upstream=_upstream(doc.child("upstream")),
        notes=notes,
    )


def _upstream(doc: Document) -> Upstream:
    doc.only(("status", "reports", "landed_in", "landed"))
    status = UpstreamStatus(doc.choice("status", [s.value for s in UpstreamStatus]))
    rules = []
    for rule in doc.children("landed"):
        rule.only(("file", "contains", "base"))
        path = checked_path(rule, rule.text("file"), "file")
        base = checked_version(rule, "base") if "base" in rule else None
        rules.append(LandedRule(path, rule.text("contains"), base))
    landed_in = checked_version(doc, "landed_in") if "landed_in" in doc else None
    if landed_in and status is not UpstreamStatus.MERGED:
        raise doc.error("'landed_in' needs the status 'merged'", key="landed_in")
    return Upstream(status, doc.texts("reports"), landed_in, tuple(rules))


def checked_version(doc: Document, key: str) -> str:
    """A PEP 440 version, as it was written. Raises ManifestError."""
    value = doc.text(key)
    try:
        Version(value)
    except InvalidVersion:
        raise doc.error(f"{key!r} must be a release such as 0.5.9, not {value!r}", key=key) from None
    return value


def checked_path(doc: Document, value: str, key: str = "") -> str:
    """A path below site-packages that stays there. Raises ManifestError."""
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\\" in value or str(path) != value or len(path.parts) < 2:
        raise doc.error(
            f"{value!r} is no path below site-packages",
            key=key or value,
            hint="write it like sglang/srt/a.py",
        )
    return value
