"""Looking into wheels: what they call themselves, whether they are whole, and the pinned ones."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path

from installer.sources import WheelFile as InstallerWheel
from packaging.version import InvalidVersion, Version

from specctl.base.errors import AlreadyPatched, BadWheel, HashMismatch
from specctl.base.hashing import file_sha256
from specctl.base.model import WheelSource

LOCAL_PART = "specctl"


@dataclass(frozen=True)
class WheelFacts:
    """What a wheel says about itself."""

    name: str
    version: str
    dist_info: str  # folder name inside the wheel

    @property
    def patched(self) -> bool:
        return is_patched(self.version)


def is_patched(version: str) -> bool:
    """Whether a version is that of a specctl distribution."""
    try:
        local = Version(version).local or ""
    except InvalidVersion:
        local = version.partition("+")[2]
    return local.split(".")[0] == LOCAL_PART


def read_facts(path: Path) -> WheelFacts:
    """Name and version from the wheel's METADATA.

    Raises:
        BadWheel: it is no readable zip, or holds no METADATA.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            metadata = [
                n for n in archive.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1
            ]
            if len(metadata) != 1:
                raise BadWheel(
                    f"{path.name} is no wheel: it holds {len(metadata)} METADATA files",
                    context={"file": str(path)},
                )
            headers = BytesParser().parsebytes(archive.read(metadata[0]), headersonly=True)
    except (OSError, zipfile.BadZipFile, EOFError, ValueError) as exc:
        raise BadWheel(
            f"{path.name} cannot be read as a wheel: {exc}",
            context={"file": str(path)},
            hint="it is cut short or damaged: fetch it again",
        ) from exc
    return WheelFacts(
        str(headers["Name"] or ""), str(headers["Version"] or ""), metadata[0].partition("/")[0]
    )


def check_published(path: Path, source: WheelSource, version: str) -> None:
    """Refuse a file that is not the pinned wheel.

    Raises:
        AlreadyPatched: it is a specctl distribution.
        HashMismatch: other bytes; the context has both hashes and what the file calls itself.
        BadWheel: it cannot be read.
    """
    try:
        seen, size = file_sha256(path), path.stat().st_size
    except OSError as exc:
        raise BadWheel(f"{path} cannot be read: {exc.strerror}", context={"file": str(path)}) from exc
    if seen == source.sha256:
        return
    context = {"file": str(path), "expected": f"sha256 {source.sha256}", "seen": f"sha256 {seen}"}
    try:
        facts = read_facts(path)
    except BadWheel:
        raise HashMismatch(
            f"{path.name} is no whole SGLang {version}: it is damaged or cut short"
            f" ({size} of {source.size} bytes)",
            context=context,
            hint="fetch it again",
        ) from None
    if facts.patched:
        raise AlreadyPatched(
            f"{path.name} is already patched: it is {facts.name} {facts.version}",
            context=context,
            hint="a base is the plain wheel: specctl base fetch",
        )
    what = "" if facts.version == version else f"; it calls itself {facts.name} {facts.version}"
    raise HashMismatch(
        f"{path.name} is not the published wheel of SGLang {version}{what}",
        context=context,
        hint="fetch the published one, or add yours: specctl base add --git URL --ref REF",
    )


def check_built(path: Path) -> WheelFacts:
    """Check a wheel that was built from source: an SGLang, its RECORD right, not patched.

    Raises:
        BadWheel, AlreadyPatched.
    """
    facts = read_facts(path)
    if facts.name.lower() != "sglang":
        raise BadWheel(f"{path.name} is {facts.name}, not sglang", context={"file": str(path)})
    if facts.patched:
        raise AlreadyPatched(
            f"{path.name} is already patched: it is {facts.name} {facts.version}",
            context={"file": str(path)},
            hint="take the overlays out of the source first: specctl overlay remove",
        )
    check_record(path)
    return facts


def check_record(path: Path) -> None:
    """Compare every file of a wheel with its RECORD. Raises BadWheel with what differs."""
    try:
        with InstallerWheel.open(path) as source:
            source.validate_record(validate_contents=True)
            listed = {row[0] for row in csv.reader(source.read_dist_info("RECORD").splitlines()) if row}
        with zipfile.ZipFile(path) as archive:  # installer says nothing of files that are not there
            gone = sorted(listed - set(archive.namelist()))
        if gone:
            raise ValueError(f"in RECORD, but not in the wheel: {', '.join(gone[:5])}")
    except (OSError, ValueError, zipfile.BadZipFile, AssertionError) as exc:
        issues = getattr(exc, "issues", None) or [str(exc)]
        raise BadWheel(
            f"the RECORD of {path.name} does not describe its files",
            context={"file": str(path), "differs": "\n".join(map(str, issues[:10]))},
            hint="the wheel is damaged: fetch or build it again",
        ) from exc
