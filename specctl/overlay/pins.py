"""The generated half of an overlay: pins/BASE.yaml per base and pins/modules.yaml for our own modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from specctl.overlay.document import Document
from specctl.overlay.errors import ManifestError
from specctl.overlay.manifest import checked_path, checked_version
from specctl.overlay.model import BasePins, FileEdit, FunctionPin, sha256
from specctl.overlay.patch import PatchFormatError, parse_patch

PINS = "pins"
MODULE_PINS = "modules.yaml"
_HEADER = "# Written by `specctl overlay pin`; change the edits and pin again instead of editing this file.\n"


def read_base(folder: Path, file: Path) -> BasePins:
    """Read one pins/BASE.yaml of the overlay in `folder`, with the diffs that it names.

    Raises:
        ManifestError: a key is missing or unknown, a diff is broken, or a diff is not the pinned one.
    """
    doc = Document.read(file)
    doc.only(("base", "files"))
    version = checked_version(doc, "base")
    if version != file.stem:
        raise doc.error(f"the base {version!r} differs from the file's name {file.name!r}", key="base")
    files = doc.child("files")
    edits = {}
    for path in files.keys():  # noqa: SIM118
        checked_path(files, path)
        edits[path] = _edit(folder, files.child(path), path)
    return BasePins(version, edits)


def _edit(folder: Path, doc: Document, path: str) -> FileEdit:
    doc.only(("patch", "patch_sha256", "base_sha256", "functions", "telling"))
    patch = doc.text("patch")
    again = f"pin it again: specctl overlay pin {folder.name} --base-tree DIR"
    try:
        data = (folder / patch).read_bytes()
    except OSError as exc:
        raise doc.error(
            f"the hook edit {patch} cannot be read: {exc.strerror}", key="patch", hint=again
        ) from exc
    if sha256(data) != doc.text("patch_sha256"):
        raise doc.error(f"{patch} is not the hook edit that was pinned", key="patch_sha256", hint=again)
    try:
        named, hunks = parse_patch(data)
    except PatchFormatError as exc:
        raise doc.error(f"{patch} is no complete unified diff: {exc}", key="patch") from exc
    if named != path:
        raise doc.error(f"{patch} edits {named}, not {path}", key="patch")
    table = doc.child("functions")
    functions = []
    for name in table.keys():  # noqa: SIM118
        entry = table.child(name)
        entry.only(("sha256", "hunks"))
        indices = tuple(number - 1 for number in entry.integers("hunks"))
        if not indices or any(not 0 <= i < len(hunks) for i in indices):
            raise entry.error(f"{patch} has hunks 1 to {len(hunks)}", key="hunks", hint=again)
        functions.append(FunctionPin(name, entry.text("sha256"), indices))
    unowned = set(range(len(hunks))) - {i for f in functions for i in f.hunks}
    if unowned:
        raise doc.error(
            f"hunk {min(unowned) + 1} of {patch} belongs to no function", key="functions", hint=again
        )
    telling = "telling" not in doc or doc.choice("telling", ("true", "false")) == "true"
    return FileEdit(path, doc.text("base_sha256"), patch, hunks, tuple(functions), telling)


def read_modules(folder: Path) -> dict[str, bytes]:
    """Our modules below FOLDER/files, each checked against its pin.

    Raises:
        ManifestError: a module is missing, has no pin, or has other bytes than its pin.
    """
    found = module_files(folder)
    file = folder / PINS / MODULE_PINS
    if not file.exists():
        pinned: dict[str, str] = {}
        doc = None
    else:
        doc = Document.read(file)
        doc.only(("modules",))
        table = doc.child("modules")
        pinned = {checked_path(table, path): table.text(path) for path in table.keys()}  # noqa: SIM118
    wrong = [f"{path}: pinned, but not below files/" for path in pinned if path not in found]
    wrong += [f"{path}: not pinned" for path in found if path not in pinned]
    wrong += [
        f"{p}: other bytes than pinned"
        for p, data in found.items()
        if p in pinned and sha256(data) != pinned[p]
    ]
    if wrong:
        raise ManifestError(
            f"the modules of {folder.name} are not the pinned ones",
            context={"file": str(file), "modules": "\n".join(sorted(wrong))},
            hint=f"pin them again: specctl overlay pin {folder.name} --base-tree DIR",
        )
    return found


def module_files(folder: Path) -> dict[str, bytes]:
    """Path below site-packages -> bytes of all that lies in FOLDER/files, compiled leftovers aside."""
    root = folder / "files"
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def format_base(version: str, edits: Mapping[str, FileEdit], patches: Mapping[str, bytes]) -> str:
    """The text of pins/BASE.yaml; `patches` maps a diff's path in the overlay to its bytes."""
    files = {
        path: {
            "patch": edit.patch,
            "patch_sha256": sha256(patches[edit.patch]),
            "base_sha256": edit.base_sha256,
            "telling": edit.telling,
            "functions": {
                f.name: {"sha256": f.sha256, "hunks": [i + 1 for i in f.hunks]} for f in edit.functions
            },
        }
        for path, edit in sorted(edits.items())
    }
    return _HEADER + _dump({"base": version, "files": files})


def format_modules(modules: Mapping[str, bytes]) -> str:
    """The text of pins/modules.yaml."""
    return _HEADER + _dump({"modules": {path: sha256(data) for path, data in sorted(modules.items())}})


def _dump(document: object) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=200, default_flow_style=None)
