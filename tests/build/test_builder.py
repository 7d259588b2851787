"""A distribution: right bytes, the same bytes twice, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from base.builders import DISK, base_for, make_wheel, refuse

from build.builders import FLAG, MODULE, make_overlays
from specctl import __version__
from specctl.base.errors import BadWheel, WriteFailed
from specctl.base.fetch import silent
from specctl.base.wheel import check_record, read_facts
from specctl.build.builder import Built, Plan, build, render
from specctl.build.distribution import Distribution
from specctl.build.errors import Invalid, OutputRefused
from specctl.overlay import OverlayConflict, OverlayStore, UnsupportedBaseError

MakePlan = Callable[..., Plan]


def made(plan: Plan) -> Built:
    return build(plan, say=silent)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".specctl-")]


def test_the_wheel_is_the_base_with_the_overlays_and_a_version_of_its_own(
    plan: MakePlan, wheel: Path, tmp_path: Path
) -> None:
    built = made(plan(revision=3))
    path = tmp_path / "out" / "sglang-0.5.9+specctl.3-py3-none-any.whl"
    assert read_facts(path).version == built.distribution.version == "0.5.9+specctl.3"
    check_record(path)
    with zipfile.ZipFile(wheel) as base, zipfile.ZipFile(path) as ours:
        names = {
            n.replace("sglang-0.5.9.dist-info", "sglang-0.5.9+specctl.3.dist-info") for n in base.namelist()
        }
        assert set(ours.namelist()) == names | {MODULE}
        changed = {"sglang/srt/server_args.py", "sglang/_version.py"}
        for name in base.namelist():
            if name.startswith("sglang/"):
                assert (ours.read(name) == base.read(name)) is (name not in changed), name
        assert FLAG.encode() in ours.read(MODULE)
        version = ours.read("sglang/_version.py").decode()
        metadata = ours.read("sglang-0.5.9+specctl.3.dist-info/METADATA").decode()
    told: dict[str, object] = {}
    exec(version, told)
    assert told["__version__"] == "0.5.9+specctl.3"
    assert told["version_tuple"] == (0, 5, 9, "specctl.3")
    expected = base_metadata(wheel).replace("\nVersion: 0.5.9\n", "\nVersion: 0.5.9+specctl.3\n")
    assert metadata == expected
    assert metadata.endswith("\n\nVersion: text\n")


def base_metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read("sglang-0.5.9.dist-info/METADATA").decode()


def test_provenance_names_base_overlays_files_and_tool(
    plan: MakePlan, wheel: Path, store: OverlayStore, tmp_path: Path
) -> None:
    built = made(plan())
    dist = Distribution.load(tmp_path / "out")
    assert dist == replace(built.distribution, overlays=dist.overlays)
    path = tmp_path / "out" / dist.wheel
    assert dist.wheel_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (dist.base_version, dist.base_sha256) == ("0.5.9", base_for(wheel).sha256)
    assert [(o.name, o.sha256) for o in dist.overlays] == [("small", store.load("small").sha256)]
    assert dist.tool_version == __version__
    assert dist.locks == {"cuda": "lock-cuda.txt"}
    assert (tmp_path / "out" / "lock-cuda.txt").read_text() == "six==1.0\n"
    assert set(dist.files) == {MODULE, "sglang/srt/server_args.py", "sglang/_version.py"}
    with zipfile.ZipFile(path) as archive:
        for name, digest in dist.files.items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == digest


def test_two_builds_are_the_same_to_the_byte_whatever_the_machine_does(
    plan: MakePlan, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(plan(output=tmp_path / "one"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    previous = os.umask(0o077)
    try:
        made(plan(output=tmp_path / "deep" / "two"))
    finally:
        os.umask(previous)
    assert content(tmp_path / "one") == content(tmp_path / "deep" / "two")
    with zipfile.ZipFile(next((tmp_path / "one").glob("*.whl"))) as archive:
        entries = archive.infolist()
    names = [entry.filename for entry in entries]
    package = [name for name in names if ".dist-info/" not in name]
    assert package == sorted(package)
    assert names[-1].endswith("/RECORD")
    with zipfile.ZipFile(wheel) as archive:
        assert {entry.date_time for entry in entries} == {max(e.date_time for e in archive.infolist())}
    assert {entry.external_attr >> 16 for entry in entries} == {0o100644}
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}


def test_building_the_same_again_leaves_the_folder_alone(plan: MakePlan, tmp_path: Path) -> None:
    assert made(plan()).changed is True
    before = {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()}
    assert made(plan()).changed is False
    assert {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()} == before


def test_another_revision_replaces_the_folder_whole(plan: MakePlan, tmp_path: Path) -> None:
    made(plan())
    assert made(plan(revision=2, locks={})).changed is True
    assert sorted(content(tmp_path / "out")) == ["dist.json", "sglang-0.5.9+specctl.2-py3-none-any.whl"]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "there", [["notes.txt"], ["dist.json", "notes.txt"], ["sglang-0.5.9-py3-none-any.whl"], [".hidden"]]
)
def test_a_folder_with_other_files_is_not_touched(plan: MakePlan, tmp_path: Path, there: list[str]) -> None:
    (tmp_path / "out").mkdir()
    for name in there:
        (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(OutputRefused, match="other files") as caught:
        made(plan())
    assert caught.value.exit_code == 2
    assert content(tmp_path / "out") == dict.fromkeys(sorted(there), b"mine")


def test_an_output_that_is_a_file_or_lies_in_one_is_refused(plan: MakePlan, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputRefused, match="is a file"):
        made(plan(output=tmp_path / "file"))
    with pytest.raises(WriteFailed):
        made(plan(output=tmp_path / "file" / "out"))
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_folder_is_filled(plan: MakePlan, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert made(plan()).changed is True


@pytest.mark.parametrize(("code", "text"), DISK)
@pytest.mark.parametrize(
    "operation", ["zipfile.ZipFile.writestr", "pathlib.Path.replace", "os.fsync", "tempfile.mkdtemp"]
)
def test_a_full_or_read_only_disk_keeps_the_old_distribution(
    plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, code: int, text: str
) -> None:
    made(plan())
    before = content(tmp_path / "out")
    second = plan(revision=2)
    monkeypatch.setattr(operation, refuse(code))
    with pytest.raises(WriteFailed, match=text):
        made(second)
    assert content(tmp_path / "out") == before
    assert leftovers(tmp_path) == []


def test_a_rename_that_fails_half_way_brings_the_old_folder_back(
    plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(plan())
    before = content(tmp_path / "out")
    second, real = plan(revision=2), Path.replace

    def fail_for_the_new(self: Path, target: Path) -> Path:
        if self.name == "distribution":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr("pathlib.Path.replace", fail_for_the_new)
    with pytest.raises(WriteFailed):
        made(second)
    assert content(tmp_path / "out") == before


def test_an_overlay_that_does_not_compile_is_not_put_in_place(
    plan: MakePlan, wheel: Path, tmp_path: Path
) -> None:
    broken = make_overlays(tmp_path / "broken", wheel, module="def f(:\n")
    with pytest.raises(Invalid, match="does not compile") as caught:
        made(plan(overlays=tuple(broken.load_all())))
    assert caught.value.context["file"] == MODULE
    assert not (tmp_path / "out").exists()
    assert leftovers(tmp_path) == []


def test_overlays_that_do_not_fit_the_bytes_of_the_base_are_refused(plan: MakePlan, tmp_path: Path) -> None:
    files = {"sglang/__init__.py": "", "sglang/srt/server_args.py": "changed = 1\n"}
    other = make_wheel(tmp_path / "other", files=files)
    with pytest.raises(OverlayConflict, match="do not fit"):
        made(plan(base=base_for(other), wheel=other))
    assert not (tmp_path / "out").exists()


def test_overlays_without_pins_for_the_base_are_refused(plan: MakePlan, wheel: Path) -> None:
    with pytest.raises(UnsupportedBaseError):
        made(plan(base=replace(base_for(wheel), like="0.5.10")))


def test_a_base_without_the_version_file_tells_its_version_from_metadata(
    plan: MakePlan, wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {n: archive.read(n).decode() for n in archive.namelist() if n.startswith("sglang/")}
    del files["sglang/_version.py"]
    other = make_wheel(tmp_path / "other", files=files)
    p = plan()
    assert "sglang/_version.py" not in render(base_for(other), other, p.overlays, 1).changed
    files["sglang/_version.py"] = "__version__ = compute()\n"
    odd = make_wheel(tmp_path / "odd", files=files)
    with pytest.raises(BadWheel, match="not as setuptools-scm writes it"):
        render(base_for(odd), odd, p.overlays, 1)
