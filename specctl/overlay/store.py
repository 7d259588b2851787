"""Where overlays are found, and how one folder becomes an `Overlay`."""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path

from specctl.errors import UsageError
from specctl.overlay.errors import ManifestError
from specctl.overlay.manifest import MANIFEST, read_manifest
from specctl.overlay.model import Overlay
from specctl.overlay.pins import MODULE_PINS, PINS, module_files, read_base, read_modules

_PACKAGE = Path(__file__).resolve().parents[1]


class OverlayStore:
    """A folder with one overlay per sub-folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def discover(cls, explicit: Path | None = None) -> OverlayStore:
        """The store that counts here: `explicit`, else the checkout's overlays/, else the shipped ones.

        Raises:
            UsageError: the explicit folder is none, or no overlays are anywhere.
        """
        if explicit is not None:
            if not explicit.is_dir():
                raise UsageError(
                    f"{explicit} is no folder of overlays", hint="give a folder with NAME/overlay.yaml"
                )
            return cls(explicit)
        candidates = (_PACKAGE.parent / "overlays", _PACKAGE / "_shipped" / "overlays")
        for index, root in enumerate(candidates):
            # What lies beside an installed package is anybody's: only a checkout has a pyproject.toml.
            if root.is_dir() and (index or (root.parent / "pyproject.toml").is_file()):
                return cls(root)
        raise UsageError("this specctl has no overlays", hint="name their folder: --overlays DIR")

    @property
    def shipped(self) -> bool:
        """Whether this is the folder inside an installed specctl, which is nobody's to edit."""
        return self.root == _PACKAGE / "_shipped" / "overlays"

    def names(self) -> list[str]:
        """Names of all overlays, sorted; a folder counts when it holds an overlay.yaml."""
        return sorted(entry.name for entry in self.root.iterdir() if (entry / MANIFEST).is_file())

    def folder(self, name: str) -> Path:
        """The folder of one overlay.

        Raises:
            UsageError: there is none of that name; the hint names the nearest one.
        """
        known = self.names()
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"
            raise UsageError(
                f"there is no overlay {name!r}",
                code="unknown-overlay",
                context={"folder": str(self.root)},
                hint=hint,
            )
        return self.root / name

    def load(self, name: str) -> Overlay:
        """Read and check one overlay.

        Raises:
            UsageError: there is none of that name.
            ManifestError: it is not consistent with itself or its pins.
        """
        folder = self.folder(name)
        manifest = read_manifest(folder)
        modules = read_modules(folder)
        pins = [p for p in sorted((folder / PINS).glob("*.yaml")) if p.name != MODULE_PINS]
        bases = {base.version: base for base in (read_base(folder, file) for file in pins)}
        for version, base in bases.items():
            both = sorted(set(modules) & set(base.edits))
            if both:
                raise ManifestError(
                    f"{both[0]} is both a module and a hook edit of {version}", context={"overlay": name}
                )
        edited = {path for base in bases.values() for path in base.edits}
        stray = sorted(set(manifest.notes) - edited) if bases else []
        if stray:
            near = difflib.get_close_matches(stray[0], sorted(edited), 1)
            raise ManifestError(
                f"the manifest explains edits in {stray[0]}, which the overlay does not edit",
                context={"file": str(folder / MANIFEST), "key": f"edits.{stray[0]}"},
                hint=f"did you mean {near[0]!r}?" if near else "remove the entry",
            )
        return Overlay(
            name=manifest.name,
            summary=manifest.summary,
            reason=manifest.reason,
            order=manifest.order,
            upstream=manifest.upstream,
            root=folder,
            sha256=_digest(folder, [e.patch for b in bases.values() for e in b.edits.values()]),
            bases=bases,
            modules=modules,
            notes=manifest.notes,
        )

    def load_all(self) -> list[Overlay]:
        """All overlays in the order in which they lie on a base."""
        return sorted((self.load(name) for name in self.names()), key=lambda o: (o.order, o.name))


def _digest(folder: Path, patches: list[str]) -> str:
    """One hash over all that decides what the overlay does; files around it (notes, caches) do not count."""
    parts = {f"files/{path}": data for path, data in module_files(folder).items()}
    names = [MANIFEST, *patches, *(f"{PINS}/{p.name}" for p in (folder / PINS).glob("*.yaml"))]
    parts.update({name: (folder / name).read_bytes() for name in names})
    digest = hashlib.sha256()
    for name, data in sorted(parts.items()):
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
