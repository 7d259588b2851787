"""Revision numbers: N of `0.5.9+specctl.N`, pinned to the inputs that it stands for.

distribution.yaml, beside the overlays:

    revisions:
      0.5.9: {revision: 1, inputs: <sha256>}
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from specctl.base.disk import disk_errors, write_atomic
from specctl.build.errors import RevisionTaken
from specctl.errors import UsageError
from specctl.overlay.model import Overlay

FILE = "distribution.yaml"
_HEAD = "# Which inputs (base and overlays) each revision stands for. Written by `specctl build --bump`.\n"


class Change(str, Enum):
    """KEEP: the pin decides. BUMP: the next number for new inputs. REPIN: the same number for new inputs."""

    KEEP = "keep"
    BUMP = "bump"
    REPIN = "repin"


@dataclass(frozen=True)
class Pin:
    """One line of distribution.yaml."""

    revision: int
    inputs: str


@dataclass(frozen=True)
class Chosen:
    """The revision of a build, and the pin that has to be written with it (None: nothing to write)."""

    revision: int
    pin: Pin | None


def inputs_digest(base_sha256: str, overlays: Sequence[Overlay]) -> str:
    """One hash over all that decides a distribution's content."""
    lines = [f"base {base_sha256}", *sorted(f"overlay {o.name} {o.sha256}" for o in overlays)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_pins(path: Path) -> dict[str, Pin]:
    """Base name -> pin; empty when there is no file.

    Raises:
        UsageError: the file is no such list.
    """
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return {
            str(name): Pin(int(pin["revision"]), str(pin["inputs"]))
            for name, pin in (raw or {}).get("revisions", {}).items()
        }
    except FileNotFoundError:
        return {}
    except (
        OSError,
        UnicodeDecodeError,
        yaml.YAMLError,
        TypeError,
        KeyError,
        ValueError,
        AttributeError,
    ) as exc:
        raise UsageError(
            f"{path.name} is no list of revisions: {' '.join(str(exc).split())}",
            context={"file": str(path)},
            hint="mend it, or remove it and pin again: specctl build --revision N --bump",
        ) from exc


def check_may_pin(path: Path, *, owned: bool, partial: bool) -> None:
    """Refuse to write a pin that would break the plain build.

    Args:
        path: the list of revisions that would be written.
        owned: the overlays are the user's (a checkout or a folder of theirs), not part of an installation.
        partial: only some of the overlays are laid over the base; a pin stands for all of them.

    Raises:
        UsageError: with the way to a number of one's own.
    """
    if not owned:
        raise UsageError(
            "--bump and --repin do not change the revisions of the overlays that come with specctl",
            context={"file": str(path)},
            hint="number the build yourself: --revision N; or copy the overlays: --overlays DIR",
        )
    if partial:
        raise UsageError(
            "--bump and --repin pin all overlays of the folder, and --overlay leaves some of them out",
            context={"file": str(path)},
            hint="number this build yourself: --revision N",
        )


def choose(
    base: str,
    inputs: str,
    pins: dict[str, Pin],
    *,
    explicit: int | None = None,
    change: Change = Change.KEEP,
    may_pin: bool = True,
) -> Chosen:
    """The revision for some inputs.

    Args:
        explicit: the user's own number; it always wins.
        may_pin: whether a pin could be written; decides what the hint proposes.

    Raises:
        RevisionTaken: the pinned number stands for other inputs.
        UsageError: the number is not 1 or more.
    """
    pinned = pins.get(base)
    if explicit is not None:
        if explicit < 1:
            raise UsageError(f"a revision is 1 or more, not {explicit}")
        return Chosen(explicit, Pin(explicit, inputs) if change is not Change.KEEP else None)
    if pinned is None:
        return Chosen(1, Pin(1, inputs) if change is not Change.KEEP else None)
    if pinned.inputs == inputs:
        return Chosen(pinned.revision, None)
    if change is Change.KEEP:
        raise RevisionTaken(
            f"revision {pinned.revision} of {base} stands for other overlays or another base",
            context={"pinned": f"inputs {pinned.inputs}", "now": f"inputs {inputs}"},
            hint=f"build it as --revision {pinned.revision + 1}"
            + (f", or --bump (writes {FILE} beside the overlays)" if may_pin else ""),
        )
    revision = pinned.revision + (1 if change is Change.BUMP else 0)
    return Chosen(revision, Pin(revision, inputs))


def write_pin(path: Path, base: str, pin: Pin) -> None:
    """Write one pin and keep the others. Raises WriteFailed, UsageError."""
    pins = {**read_pins(path), base: pin}
    document = {"revisions": {name: vars(pins[name]) for name in sorted(pins)}}
    text = _HEAD + yaml.safe_dump(document, sort_keys=False)
    with disk_errors(f"{path.name} cannot be written", path):
        write_atomic(path, text.encode())
