"""A small sglang and overlays for it, built on disk: what the tests of overlays work on."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from specctl.overlay import Overlay, OverlayStore
from specctl.overlay.pin import Pinned, pin

WORKER = "sglang/srt/worker.py"
METRICS = "sglang/srt/metrics.py"
MODULE = "sglang/srt/switch/__init__.py"

WORKER_TEXT = b'''"""Runs batches."""

import logging

logger = logging.getLogger(__name__)


class Worker:
    """One process per GPU."""

    limit = 8

    def __init__(self, model, batch_size):
        self.model = model
        self.batch_size = batch_size
        self.steps = 0
        logger.info("worker is ready")

    @property
    def busy(self):
        return self.steps > 0

    def forward(self, batch):
        if not batch:
            return None
        self.steps += 1
        result = self.model(batch)
        logger.debug("ran %d requests", len(batch))
        self.last = len(batch)
        return result

    def flush(self):
        self.steps = 0
        logger.debug("flushed")
        self.model.reset()
        return True


class DraftWorker(Worker):
    def forward(self, batch):
        if not batch:
            return None
        self.steps += 1
        result = self.model.draft(batch)
        logger.debug("drafted %d requests", len(batch))
        return result
'''

METRICS_TEXT = b'''"""Counts things."""

TOTALS = {}


def count(name, amount=1):
    TOTALS[name] = TOTALS.get(name, 0) + amount
    return TOTALS[name]


def report(prefix):
    lines = []
    for name, value in sorted(TOTALS.items()):
        lines.append(f"{prefix}{name} {value}")
    return "\\n".join(lines)
'''

FILES: dict[str, bytes] = {
    "sglang/__init__.py": b"from sglang.version import __version__\n",
    "sglang/srt/__init__.py": b"",
    WORKER: WORKER_TEXT,
    METRICS: METRICS_TEXT,
}

HOOK = (
    b"        self.steps += 1\n        result = self.model(batch)\n",
    b"        self.steps += 1\n        if switch.is_off(batch):\n"
    b"            return switch.step(self, batch)\n        result = self.model(batch)\n",
)
IMPORT = (b"import logging\n", b"import logging\n\nfrom sglang.srt import switch\n")
READY = (
    b'        logger.info("worker is ready")\n',
    b'        logger.info("worker is ready")\n        switch.attach(self, model, batch_size)\n',
)
GUARD = (
    b"    TOTALS[name] = TOTALS.get(name, 0) + amount\n",
    b"    TOTALS[name] = TOTALS.get(name, 0) + max(amount, 0)\n",
)
SWITCH_EDITS = {WORKER: [IMPORT, READY, HOOK]}
SWITCH_MODULES = {MODULE: b"def is_off(batch):\n    return len(batch) > 8\n"}
FAULT_EDITS = {
    METRICS: [GUARD],
    WORKER: [
        (
            b"        self.steps = 0\n        logger.debug",
            b"        self.steps = 0  # fixed\n        logger.debug",
        )
    ],
}

Edits = Mapping[str, Sequence[tuple[bytes, bytes]]]


def edited(files: Mapping[str, bytes], edits: Edits) -> dict[str, bytes]:
    """Files with texts replaced; each text must be there exactly once."""
    out = dict(files)
    for path, pairs in edits.items():
        for old, new in pairs:
            assert out[path].count(old) == 1, f"{old!r} is in {path} {out[path].count(old)} times"
            out[path] = out[path].replace(old, new)
    return out


def write_tree(root: Path, files: Mapping[str, bytes] = FILES, *, version: str | None = "0.5.9") -> Path:
    """A source tree: sglang/ with a version file, no dist-info."""
    said = {"sglang/version.py": f'__version__ = "{version}"\n'.encode()} if version else {}
    for path, data in {**files, **said}.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root


def dist_info(files: Mapping[str, bytes], version: str) -> dict[str, bytes]:
    """METADATA and RECORD for an installed distribution of these files."""
    info = f"sglang-{version}.dist-info"
    rows = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    rows.append(f"{info}/RECORD,,\n")
    return {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n".encode(),
        f"{info}/RECORD": "".join(rows).encode(),
    }


def write_release(root: Path, files: Mapping[str, bytes] = FILES, *, version: str = "0.5.9") -> Path:
    """An unpacked wheel: a source tree with dist-info beside it."""
    files = {**files, "sglang/version.py": f'__version__ = "{version}"\n'.encode()}
    return write_tree(root, {**files, **dist_info(files, version)}, version=None)


def write_venv(root: Path, files: Mapping[str, bytes] = FILES, *, version: str = "0.5.9") -> Path:
    """A virtual environment with the release installed; returns its site-packages."""
    site = root / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("home = nowhere\n")
    return write_release(site, files, version=version)


def write_wheel(path: Path, files: Mapping[str, bytes] = FILES, *, version: str = "0.5.9") -> Path:
    """A wheel with the release in it."""
    files = {**files, "sglang/version.py": f'__version__ = "{version}"\n'.encode()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**files, **dist_info(files, version)}.items():
            archive.writestr(name, data)
    return path


class Workshop:
    """A store of overlays and a base to pin them to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.base = write_release(root / "base")
        self.store = OverlayStore(root / "overlays")
        self.store.root.mkdir()

    def manifest(self, name: str, **keys: object) -> Path:
        """Write NAME/overlay.yaml; `keys` replace or add to the usual ones."""
        document = {
            "name": name,
            "summary": f"what {name} does",
            "reason": f"why {name} exists",
            "order": 10,
            "upstream": {"status": "ours"},
            **keys,
        }
        folder = self.store.root / name
        folder.mkdir(exist_ok=True)
        (folder / "overlay.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        return folder

    def overlay(
        self,
        name: str,
        edits: Edits | None = None,
        modules: Mapping[str, bytes] | None = None,
        *,
        files: Mapping[str, bytes] = FILES,
        **keys: object,
    ) -> Overlay:
        """Write, pin and load an overlay that makes these edits in the base."""
        folder = self.manifest(name, **keys)
        for path, data in (modules or {}).items():
            target = folder / "files" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        self.pin(name, edits or {}, files=files)
        return self.store.load(name)

    def pin(
        self, name: str, edits: Edits, *, files: Mapping[str, bytes] = FILES, **options: object
    ) -> Pinned:
        """Pin an overlay from the base and a copy with these edits."""
        base = self.base
        if files is not FILES:
            base = write_release(self.root / f"base-of-{name}", files)
        copy = write_release(self.root / f"edited-for-{name}", edited(files, edits))
        return pin(self.store.folder(name), base, copy, **options)  # type: ignore[arg-type]

    def switch(self, **keys: object) -> Overlay:
        """An overlay with three hooks in one file and a module."""
        return self.overlay("switch", SWITCH_EDITS, SWITCH_MODULES, **{"order": 20, **keys})

    def faults(self, **keys: object) -> Overlay:
        """An overlay with one-line fixes in two files, one of which `switch` edits too; no modules."""
        self.manifest("faults", **keys)
        self.pin("faults", FAULT_EDITS)
        return self.store.load("faults")


def contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder, to see that nothing changed."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
