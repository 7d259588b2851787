"""Looking into wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from base.builders import make_wheel
from specctl.base.errors import AlreadyPatched, BadWheel
from specctl.base.wheel import check_built, check_record, is_patched, read_facts


def test_a_wheel_is_asked_what_it_is(wheel: Path) -> None:
    facts = read_facts(wheel)
    assert (facts.name, facts.version, facts.dist_info) == ("sglang", "0.5.9", "sglang-0.5.9.dist-info")


@pytest.mark.parametrize(
    ("version", "patched"),
    [
        ("0.5.9", False),
        ("0.5.9+specctl.1", True),
        ("0.5.9+specctl", True),
        ("0.5.9+cu128", False),
        ("x+specctl.1", True),
    ],
)
def test_a_distribution_is_told_by_its_local_version(version: str, patched: bool) -> None:
    assert is_patched(version) is patched


@pytest.mark.parametrize("content", [b"", b"no zip at all", None])
def test_what_is_no_wheel_is_said_so(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "sglang-0.5.9-py3-none-any.whl"
    if content is None:
        zipfile.ZipFile(path, "w").close()
    else:
        path.write_bytes(content)
    with pytest.raises(BadWheel):
        read_facts(path)


def altered(wheel: Path, folder: Path, name: str, data: bytes | None) -> Path:
    """The same wheel with one file changed, left out (None) or added, and RECORD as it was."""
    folder.mkdir()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(folder / wheel.name, "w") as target:
        for entry in source.infolist():
            if entry.filename != name:
                target.writestr(entry, source.read(entry))
        if data is not None:
            target.writestr(name, data)
    return folder / wheel.name


@pytest.mark.parametrize(
    ("name", "data"),
    [("sglang/__init__.py", b"import os\n"), ("sglang/__init__.py", None), ("sglang/added.py", b"")],
)
def test_a_record_that_does_not_describe_its_files_is_refused(
    wheel: Path, tmp_path: Path, name: str, data: bytes | None
) -> None:
    check_record(wheel)
    with pytest.raises(BadWheel, match="RECORD") as caught:
        check_record(altered(wheel, tmp_path / "altered", name, data))
    assert name in caught.value.context["differs"]


def test_a_build_that_is_not_sglang_or_is_patched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadWheel, match="not sglang"):
        check_built(make_wheel(tmp_path, name="other"))
    with pytest.raises(AlreadyPatched):
        check_built(make_wheel(tmp_path, "0.5.9+specctl.1"))
