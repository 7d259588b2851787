"""What an installed distribution says about itself: METADATA and RECORD of a dist-info folder."""

from __future__ import annotations

import base64
import binascii
import csv
from email.parser import BytesParser

PACKAGE = "sglang"


def metadata_field(data: bytes, name: str) -> str | None:
    """One header of a METADATA file."""
    value = BytesParser().parsebytes(data, headersonly=True)[name]
    return str(value).strip() if value is not None else None


def recorded_hashes(data: bytes) -> dict[str, str]:
    """Path -> sha256 in hex of each file below sglang/ that a RECORD lists with one, but compiled files."""
    out = {}
    for row in csv.reader(data.decode("utf-8", "surrogateescape").splitlines()):
        if len(row) < 2 or not row[0].startswith(f"{PACKAGE}/") or row[0].endswith(".pyc"):
            continue
        algorithm, _, digest = row[1].partition("=")
        if algorithm != "sha256":
            continue
        try:
            raw = base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4))
        except (binascii.Error, ValueError):
            raw = b""
        out[row[0]] = raw.hex()  # a broken digest stays as one that no file can have
    return out
