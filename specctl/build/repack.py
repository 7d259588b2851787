"""Writing a wheel so that the same content gives the same bytes: sorted, one time, one mode, not compressed.

Compressed data differs from one zlib to the next. Stored data does not, so two people who build the same
inputs on different machines get the same sha256, at the price of a larger file.
"""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

from wheel.wheelfile import WheelFile

Timestamp = tuple[int, int, int, int, int, int]


def read_wheel(path: Path) -> tuple[dict[str, bytes], Timestamp]:
    """All files of a wheel, and its youngest time. Raises OSError, zipfile.BadZipFile."""
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        files = {entry.filename: archive.read(entry) for entry in entries}
        return files, max(entry.date_time for entry in entries)


def rename_dist_info(files: Mapping[str, bytes], old: str, new: str) -> dict[str, bytes]:
    """The same files with dist-info (and data) under another name; RECORD is left out, to be written anew."""
    renamed: dict[str, bytes] = {}
    for name, data in files.items():
        folder, slash, rest = name.partition("/")
        if folder == f"{old}.dist-info":
            if rest in ("RECORD", "RECORD.jws", "RECORD.p7s"):
                continue
            folder = f"{new}.dist-info"
        elif folder == f"{old}.data":
            folder = f"{new}.data"
        renamed[f"{folder}{slash}{rest}"] = data
    return renamed


class _PlainWheel(WheelFile):  # type: ignore[misc]
    """wheel's own writer (it makes RECORD), with one time and mode for every entry."""

    def __init__(self, path: Path, timestamp: Timestamp) -> None:
        self._timestamp = timestamp
        super().__init__(str(path), "w", compression=zipfile.ZIP_STORED)

    def writestr(
        self, zinfo_or_arcname: str | zipfile.ZipInfo, data: bytes | str, compress_type: int | None = None
    ) -> None:
        entry = zinfo_or_arcname
        if isinstance(entry, str):
            entry = zipfile.ZipInfo(entry, date_time=self._timestamp)
            entry.compress_type = self.compression
            entry.create_system = 3  # Unix, so that the mode counts wherever the wheel was written
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
        super().writestr(entry, data, compress_type)


def write_wheel(path: Path, files: Mapping[str, bytes], timestamp: Timestamp) -> None:
    """Write `files` and their RECORD; dist-info comes last, as wheels have it. Raises OSError."""
    dist_info = f"{'-'.join(path.name.split('-')[:2])}.dist-info/"
    ordered = sorted(files, key=lambda name: (name.startswith(dist_info), name))
    with _PlainWheel(path, timestamp) as wheel:
        for name in ordered:
            wheel.writestr(name, files[name])
