"""From a checked base wheel and overlays to a distribution folder."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from specctl import __version__
from specctl.base.disk import disk_errors, temporary_beside
from specctl.base.errors import BadWheel
from specctl.base.lock import shipped_lock
from specctl.base.model import Base
from specctl.base.wheel import read_facts
from specctl.build.checks import load_checks
from specctl.build.distribution import Distribution, OverlayRecord
from specctl.build.output import check_output, put_in_place
from specctl.build.repack import Timestamp, read_wheel, rename_dist_info, write_wheel
from specctl.build.stamp import distribution_version, stamp_metadata, stamp_sources
from specctl.build.validate import Validation, validate_import, validate_static
from specctl.overlay import Overlay, compose
from specctl.route.options import load_options

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is built, and where it goes.

    Attributes:
        wheel: the base's checked wheel.
        locks: target -> text of the lock that is put beside the wheel.
        python: the Python that imports the result; None: validation does not import.
        why_no_python: why `python` is None, for the report.
    """

    base: Base
    wheel: Path
    overlays: tuple[Overlay, ...]
    revision: int
    output: Path
    locks: dict[str, str]
    python: str | None
    why_no_python: str = ""


@dataclass(frozen=True)
class Built:
    """A distribution in its place. `changed` is False when the same bytes were there already."""

    distribution: Distribution
    folder: Path
    changed: bool
    validation: Validation


@dataclass(frozen=True)
class Rendered:
    """The content of a distribution's wheel."""

    version: str
    file: str
    files: dict[str, bytes]
    changed: dict[str, bytes]  # what overlays edited or added, and the stamped version file
    timestamp: Timestamp


def shipped_locks(base: Base) -> dict[str, str]:
    """Target -> text of every lock that came with specctl for a base. Raises RecordError."""
    texts = {target: shipped_lock(base, target) for target in base.locks}
    return {target: text for target, text in texts.items() if text is not None}


def render(base: Base, wheel: Path, overlays: Sequence[Overlay], revision: int) -> Rendered:
    """Lay overlays over a base wheel, in memory.

    Raises:
        UnsupportedBaseError, OverlayConflict: the overlays do not fit.
        BadWheel: the base wheel is not laid out as expected.
    """
    facts = read_facts(wheel)
    try:
        files, timestamp = read_wheel(wheel)
    except (OSError, zipfile.BadZipFile) as exc:
        raise BadWheel(f"{wheel.name} cannot be read: {exc}", context={"file": str(wheel)}) from exc
    changed = compose(overlays, base.like).render(files.__getitem__)
    version = distribution_version(base.version, revision)
    changed = dict(sorted({**changed, **stamp_sources({**files, **changed}, version)}.items()))
    name = facts.dist_info.removesuffix(".dist-info").split("-")[0]
    new = f"{name}-{version}"
    files = rename_dist_info({**files, **changed}, facts.dist_info.removesuffix(".dist-info"), new)
    metadata = f"{new}.dist-info/METADATA"
    files[metadata] = stamp_metadata(files[metadata], version)
    tags = "-".join(wheel.name.removesuffix(".whl").split("-")[-3:])
    return Rendered(version, f"{new}-{tags}.whl", files, changed, timestamp)


def build(plan: Plan, *, say: Say) -> Built:
    """Render, write, validate, and only then put the folder in place.

    Args:
        say: is told what takes time.

    Raises:
        OutputRefused: the output folder holds something else.
        UnsupportedBaseError, OverlayConflict: the overlays do not fit this base.
        Invalid, BadWheel: the result does not pass its validation; nothing was put in place.
        WriteFailed: the disk refused; the output folder is as it was.
    """
    check_output(plan.output)
    rendered = render(plan.base, plan.wheel, plan.overlays, plan.revision)
    output = plan.output.absolute()
    with disk_errors("the distribution cannot be written", output), temporary_beside(output) as workspace:
        folder = workspace / "distribution"
        folder.mkdir()
        wheel = folder / rendered.file
        say(f"writing {rendered.file}")
        write_wheel(wheel, rendered.files, rendered.timestamp)
        validation = _validate(plan, rendered, wheel, workspace, say)
        locks = {}
        for target, text in plan.locks.items():
            locks[target] = f"lock-{target}.txt"
            (folder / locks[target]).write_text(text, encoding="utf-8")
        distribution = Distribution(
            version=rendered.version,
            wheel=rendered.file,
            wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
            base_version=plan.base.version,
            base_sha256=plan.base.sha256,
            overlays=tuple(OverlayRecord(o.name, o.sha256) for o in plan.overlays),
            files={path: hashlib.sha256(data).hexdigest() for path, data in rendered.changed.items()},
            locks=locks,
            tool_version=__version__,
        )
        distribution.write(folder)
        _sync(folder)
        return Built(distribution, plan.output, put_in_place(folder, output), validation)


def _validate(plan: Plan, rendered: Rendered, wheel: Path, workspace: Path, say: Say) -> Validation:
    compiled = validate_static(wheel, plan.overlays, rendered.changed)
    if plan.python is None:
        return Validation(compiled, None, why_not_imported=plan.why_no_python)
    say(f"importing it with {plan.python}")
    known = load_options(plan.base.route.options) if plan.base.route else ()
    return validate_import(
        wheel,
        plan.python,
        workspace,
        changed=rendered.changed,
        checks=load_checks(plan.overlays),
        known_flags=frozenset(flag for option in known for flag in option["flags"]),
        environment=os.environ,
    )


def _sync(folder: Path) -> None:
    """Have the disk take the files before the rename shows them. Raises OSError."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
