"""Giving a wheel its new version: METADATA, and the file from which sglang tells its version at run time."""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.version import Version

from specctl.base.errors import BadWheel
from specctl.base.wheel import LOCAL_PART

VERSION_FILE = "sglang/_version.py"
_METADATA_VERSION = re.compile(rb"^Version:[^\r\n]*", re.MULTILINE)
_TEXT = re.compile(r"""^(__version__ = version = )(['"])([^'"]+)\2""", re.MULTILINE)
_TUPLE = re.compile(r"^(__version_tuple__ = version_tuple = )\(([^)]*)\)", re.MULTILINE)


def distribution_version(base_version: str, revision: int) -> str:
    """0.5.9, 1 -> 0.5.9+specctl.1; a local part that the base has is replaced."""
    return f"{Version(base_version).public}+{LOCAL_PART}.{revision}"


def stamp_metadata(data: bytes, version: str) -> bytes:
    """METADATA with another version and nothing else changed. Raises BadWheel without a Version field."""
    head, blank, body = data.partition(b"\n\n")
    new, count = _METADATA_VERSION.subn(f"Version: {version}".encode(), head)
    if count != 1:
        raise BadWheel(f"the base's METADATA has {count} Version fields")
    return new + blank + body


def stamp_sources(files: Mapping[str, bytes], version: str) -> dict[str, bytes]:
    """The files to replace so that sglang, and with it /server_info, says the distribution's version.

    Nothing in SGLang 0.5.9 takes this text apart: `sglang version`, /server_info and /v1/loads show it.
    A base without the file tells its version from METADATA and needs no change.

    Raises:
        BadWheel: the file is there but is not what setuptools-scm writes.
    """
    if VERSION_FILE not in files:
        return {}
    text = files[VERSION_FILE].decode("utf-8")
    text, first = _TEXT.subn(rf"\g<1>\g<2>{version}\g<2>", text)
    local = Version(version).local
    text, second = _TUPLE.subn(rf"\g<1>(\g<2>, '{local}')", text)
    if first != 1 or second != 1:
        raise BadWheel(
            f"{VERSION_FILE} of the base is not as setuptools-scm writes it",
            hint="the version in it cannot be changed safely",
        )
    return {VERSION_FILE: text.encode("utf-8")}
