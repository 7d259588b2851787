"""Overlays are found, read and checked; a folder that contradicts itself is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from overlay.builders import METRICS, MODULE, WORKER, Workshop
from specctl.errors import UsageError
from specctl.overlay import ManifestError, OverlayStore
from specctl.overlay.manifest import read_manifest

MANIFESTS = yaml.safe_load((Path(__file__).parents[1] / "cases" / "overlay-manifests.yaml").read_text())


@pytest.mark.parametrize("case", MANIFESTS, ids=lambda case: case["name"])
def test_a_wrong_manifest_is_refused_with_its_place(case, tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "overlay.yaml").write_text(case["text"])
    with pytest.raises(ManifestError) as caught:
        read_manifest(folder)
    error = caught.value
    assert case["says"] in error.message
    assert error.context["file"].startswith(str(folder / "overlay.yaml"))
    if "line" in case:
        assert error.context["file"].endswith(f":{case['line']}")
    if "hint" in case:
        assert case["hint"] in (error.hint or "")
    if "key" in case:
        assert error.context["key"] == case["key"]


def test_a_release_number_stays_what_was_written(tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    text = "name: x\nsummary: no\nreason: 1e3\norder: 1\nupstream: {status: merged, landed_in: 0.10}\n"
    (folder / "overlay.yaml").write_text(text)
    manifest = read_manifest(folder)
    assert manifest.upstream.landed_in == "0.10"
    assert (manifest.summary, manifest.reason) == ("no", "1e3")


def test_an_unknown_overlay_is_refused_with_the_nearest_name(workshop: Workshop):
    workshop.switch()
    with pytest.raises(UsageError, match="there is no overlay 'swich'") as caught:
        workshop.store.load("swich")
    assert caught.value.hint == "did you mean 'switch'?"
    with pytest.raises(UsageError) as caught:
        workshop.store.load("zzz")
    assert caught.value.hint == "known: switch"


def test_overlays_are_loaded_in_the_order_of_their_manifests(workshop: Workshop):
    workshop.switch(order=20)
    workshop.faults(order=10)
    workshop.overlay("a-late-one", order=30, modules={"sglang/srt/late.py": b"x = 1\n"})
    assert workshop.store.names() == ["a-late-one", "faults", "switch"]
    assert [o.name for o in workshop.store.load_all()] == ["faults", "switch", "a-late-one"]


def test_a_folder_without_manifest_is_no_overlay(workshop: Workshop):
    (workshop.store.root / "notes").mkdir()
    (workshop.store.root / "README.md").write_text("about overlays\n")
    assert workshop.store.names() == []


def test_the_checkout_is_found_and_a_named_folder_wins(tmp_path, workshop: Workshop):
    assert (OverlayStore.discover().root / "dynamic-disable" / "overlay.yaml").is_file()
    assert OverlayStore.discover(workshop.store.root).root == workshop.store.root
    with pytest.raises(UsageError, match="no folder of overlays"):
        OverlayStore.discover(tmp_path / "nowhere")


def test_an_installed_specctl_uses_the_overlays_inside_it_not_a_folder_beside_it(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "specctl"
    (package / "_shipped" / "overlays").mkdir(parents=True)
    (tmp_path / "site-packages" / "overlays").mkdir()  # somebody's package of that name
    monkeypatch.setattr("specctl.overlay.store._PACKAGE", package)
    assert OverlayStore.discover().root == package / "_shipped" / "overlays"
    (package / "_shipped" / "overlays").rmdir()
    with pytest.raises(UsageError, match="has no overlays"):
        OverlayStore.discover()


def patch_of(workshop: Workshop) -> Path:
    return next((workshop.store.root / "switch" / "edits" / "0.5.9").glob("*worker*"))


def pins_of(workshop: Workshop) -> Path:
    return workshop.store.root / "switch" / "pins" / "0.5.9.yaml"


def test_a_diff_that_was_changed_after_pinning_is_refused(workshop: Workshop):
    workshop.switch()
    patch = patch_of(workshop)
    patch.write_bytes(patch.read_bytes().replace(b"switch.attach", b"switch.detach"))
    with pytest.raises(ManifestError, match="is not the hook edit that was pinned") as caught:
        workshop.store.load("switch")
    assert caught.value.context["key"] == f"files.{WORKER}.patch_sha256"
    assert "specctl overlay pin switch" in (caught.value.hint or "")


def test_a_lost_diff_is_named(workshop: Workshop):
    workshop.switch()
    patch_of(workshop).unlink()
    with pytest.raises(ManifestError, match=r"edits/0.5.9/sglang.srt.worker.py.patch cannot be read"):
        workshop.store.load("switch")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("edit", "sglang/srt/switch/__init__.py: other bytes than pinned"),
        ("remove", "sglang/srt/switch/__init__.py: pinned, but not below files/"),
        ("add", "sglang/srt/switch/extra.py: not pinned"),
        ("unpin", "sglang/srt/switch/__init__.py: not pinned"),
    ],
)
def test_modules_that_are_not_the_pinned_ones_are_refused(workshop: Workshop, change, says):
    workshop.switch()
    folder = workshop.store.root / "switch"
    module = folder / "files" / MODULE
    if change == "edit":
        module.write_bytes(b"# edited\n")
    elif change == "remove":
        module.unlink()
    elif change == "add":
        (module.parent / "extra.py").write_bytes(b"x = 1\n")
    else:
        (folder / "pins" / "modules.yaml").unlink()
    with pytest.raises(ManifestError, match="not the pinned ones") as caught:
        workshop.store.load("switch")
    assert caught.value.context["modules"] == says


def test_compiled_leftovers_in_files_are_no_modules(workshop: Workshop):
    workshop.switch()
    cache = (workshop.store.root / "switch" / "files" / MODULE).parent / "__pycache__"
    cache.mkdir()
    (cache / "__init__.cpython-311.pyc").write_bytes(b"compiled")
    assert set(workshop.store.load("switch").modules) == {MODULE}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("base: 0.5.9", "base: 0.5.8", "differs from the file's name"),
        ("base_sha256", "base_sha", "unknown key 'base_sha'"),
        ("hunks: [1]", "hunks: [9]", "has hunks 1 to 3"),
        ("hunks: [1]", "hunks: [2]", "hunk 1 of .* belongs to no function"),
        ("hunks: [1]", "hunks: [one]", "list of whole numbers"),
        (f"  {WORKER}:", f"  {METRICS}:", f"edits {WORKER}, not {METRICS}"),
        (f"  {WORKER}:", "  ../worker.py:", "no path below site-packages"),
    ],
)
def test_pins_that_contradict_themselves_are_refused(workshop: Workshop, old, new, says):
    workshop.switch()
    text = pins_of(workshop).read_text()
    assert old in text
    pins_of(workshop).write_text(text.replace(old, new, 1))
    with pytest.raises(ManifestError, match=says):
        workshop.store.load("switch")


def test_a_note_about_a_file_that_is_not_edited_is_refused(workshop: Workshop):
    workshop.switch()
    workshop.manifest("switch", edits={"sglang/srt/workers.py": {"reason": "r"}})
    with pytest.raises(ManifestError, match="which the overlay does not edit") as caught:
        workshop.store.load("switch")
    assert caught.value.hint == f"did you mean {WORKER!r}?"


def test_the_fingerprint_covers_all_that_counts_and_nothing_else(workshop: Workshop):
    first = workshop.switch().sha256
    folder = workshop.store.root / "switch"
    (folder / "NOTES.md").write_text("not part of it\n")
    assert workshop.store.load("switch").sha256 == first
    seen = {first}
    manifest = folder / "overlay.yaml"
    manifest.write_text(manifest.read_text() + "# a comment\n")
    seen.add(workshop.store.load("switch").sha256)
    seen.add(workshop.overlay("switch", modules={MODULE: b"# other\n"}).sha256)
    assert len(seen) == 3


def test_an_overlay_knows_why_each_file_is_edited(workshop: Workshop):
    note = {
        "reason": "counts below zero",
        "upstream": {"status": "reported", "reports": ["sgl-project/sglang#1"]},
    }
    overlay = workshop.faults(edits={METRICS: note})
    assert overlay.reason_of(METRICS) == "counts below zero"
    assert overlay.upstream_of(METRICS).reports == ("sgl-project/sglang#1",)
    assert overlay.reason_of(WORKER) == "why faults exists"
    assert overlay.upstream_of(WORKER).status.value == "ours"
