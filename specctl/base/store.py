"""All bases that are known here: the shipped releases, and the source bases that the user added."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path

from specctl.base.disk import disk_errors, write_atomic
from specctl.base.errors import RecordError, UnknownBase
from specctl.base.model import Base
from specctl.base.records import dump_record, parse_record, read_mapping


class BaseStore:
    """Records by name.

    Args:
        folder: where the user's own records are; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shipped = {base.name: base for base in _shipped()}

    @classmethod
    def discover(cls, explicit: Path | None = None, env: Mapping[str, str] | None = None) -> BaseStore:
        """The store of this user: `explicit`, else specctl/bases below $XDG_CONFIG_HOME or ~/.config."""
        if explicit is not None:
            return cls(explicit)
        environ = os.environ if env is None else env
        config = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return cls(Path(config) / "specctl" / "bases")

    def all(self) -> list[Base]:
        """Every base, the shipped ones first. Raises RecordError on the first bad record."""
        return [*self._shipped.values(), *(self._read(path) for path in self._files())]

    def releases(self) -> list[Base]:
        """The published releases only."""
        return list(self._shipped.values())

    def versions(self) -> list[str]:
        """What an inventory may name: the SGLang version of every base whose record can be read."""
        own = []
        for path in self._files():
            with suppress(RecordError):
                own.append(self._read(path).version)
        return [*(base.version for base in self.releases()), *own]

    def get(self, name: str) -> Base:
        """One base by name.

        Raises:
            UnknownBase: there is none; the hint names the nearest.
            RecordError: its record is bad.
        """
        if name in self._shipped:
            return self._shipped[name]
        for path in self._files():
            if path.stem == name:
                return self._read(path)
        known = [*self._shipped, *(path.stem for path in self._files())]
        near = difflib.get_close_matches(name, known, 1)
        raise UnknownBase(
            f"there is no base {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}",
        )

    def add(self, base: Base, *, replace: bool = False) -> Path:
        """Write the record of a source base.

        Raises:
            RecordError: the name is a shipped release's, or is taken by other content.
            WriteFailed: the disk refused.
        """
        if base.name in self._shipped:
            raise RecordError(
                f"{base.name} is the published release; a source base needs a name of its own",
                hint="give one: --name NAME",
            )
        path = self.folder / f"{base.name}.yaml"
        if path.exists() and not replace:
            there = self._read(path)
            if there.sha256 != base.sha256:
                raise RecordError(
                    f"there is another base {base.name!r} already (SGLang {there.version})",
                    context={
                        "file": str(path),
                        "there": f"sha256 {there.sha256}",
                        "new": f"sha256 {base.sha256}",
                    },
                    hint="choose another --name, or --replace it",
                )
        with disk_errors("the base record cannot be written", path):
            write_atomic(path, dump_record(base).encode())
        return path

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.yaml")) if self.folder.is_dir() else []

    def _read(self, path: Path) -> Base:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise RecordError(f"the base record cannot be read: {exc}", context={"file": str(path)}) from exc
        parent = self._shipped.get(str(read_mapping(text, str(path)).get("like")))
        base = parse_record(text, str(path), parent)
        if base.name != path.stem:
            raise RecordError(
                f"the record {path.name} is for another name, {base.name!r}",
                context={"file": str(path)},
                hint=f"rename the file to {base.name}.yaml",
            )
        if base.name in self._shipped:
            raise RecordError(
                f"the record {path.name} hides the published release {base.name}",
                context={"file": str(path)},
                hint="give it another name",
            )
        return base


def _shipped() -> list[Base]:
    folder = resources.files("specctl.base").joinpath("data")
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".yaml"))
    bases = [parse_record(folder.joinpath(name).read_text(encoding="utf-8"), name) for name in names]
    return sorted(bases, key=lambda base: base.released or "")
