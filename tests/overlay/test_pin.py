"""Pinning: what is written, what is kept, and what is refused before anything is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from overlay.builders import (
    FAULT_EDITS,
    FILES,
    METRICS,
    MODULE,
    SWITCH_EDITS,
    SWITCH_MODULES,
    WORKER,
    Workshop,
    contents,
    edited,
    write_release,
    write_tree,
)
from specctl.errors import UsageError
from specctl.overlay import OverlayConflict, State, Tree, compose, judge, verdicts
from specctl.overlay.apply import apply_to_tree
from specctl.overlay.model import sha256
from specctl.overlay.pin import pin


def test_a_pin_holds_base_hash_function_hashes_and_the_diff(workshop: Workshop):
    overlay = workshop.switch()
    edit = overlay.bases["0.5.9"].edits[WORKER]
    assert edit.base_sha256 == sha256(FILES[WORKER])
    assert [(f.name, f.hunks) for f in edit.functions] == [
        ("<module>", (0,)),
        ("Worker.__init__", (1,)),
        ("Worker.forward", (2,)),
    ]
    assert edit.patch == "edits/0.5.9/sglang.srt.worker.py.patch"
    assert (overlay.root / "pins" / "modules.yaml").read_text().count(sha256(SWITCH_MODULES[MODULE])) == 1


def test_pinning_again_changes_nothing(workshop: Workshop):
    workshop.switch()
    before = contents(workshop.store.root)
    assert workshop.pin("switch", SWITCH_EDITS).changed == ()
    assert contents(workshop.store.root) == before


def test_the_hand_written_manifest_is_never_touched(workshop: Workshop):
    folder = workshop.manifest("switch", order=3)
    text = (folder / "overlay.yaml").read_text() + "# a comment that must stay\n"
    (folder / "overlay.yaml").write_text(text)
    workshop.pin("switch", SWITCH_EDITS)
    assert (folder / "overlay.yaml").read_text() == text


def test_a_file_that_is_no_longer_edited_loses_its_diff_and_pin(workshop: Workshop):
    workshop.faults()
    shutil.rmtree(workshop.root / "edited-for-faults")
    pinned = workshop.pin("faults", {METRICS: FAULT_EDITS[METRICS]})
    assert "edits/0.5.9/sglang.srt.worker.py.patch" in pinned.changed
    assert list(workshop.store.load("faults").bases["0.5.9"].edits) == [METRICS]


def test_diffs_can_be_pinned_as_they_are(workshop: Workshop):
    first = workshop.switch()
    folder = workshop.store.folder("switch")
    shutil.rmtree(folder / "pins")
    pin(folder, workshop.base)
    assert workshop.store.load("switch").bases == first.bases


def test_a_diff_written_by_hand_gets_its_place_in_the_pins_and_its_usual_name(workshop: Workshop):
    folder = workshop.manifest("hand")
    (folder / "edits" / "0.5.9").mkdir(parents=True)
    (folder / "edits" / "0.5.9" / "my.patch").write_text(
        f"--- a/{METRICS}\n+++ b/{METRICS}\n@@ -3,1 +3,1 @@\n-TOTALS = {{}}\n+TOTALS = dict()\n"
    )
    pin(folder, workshop.base)
    assert [p.name for p in (folder / "edits" / "0.5.9").iterdir()] == ["sglang.srt.metrics.py.patch"]
    assert workshop.store.load("hand").bases["0.5.9"].edits[METRICS].hunks[0].start == 0


def test_a_diff_that_would_need_an_offset_is_not_pinned(workshop: Workshop):
    folder = workshop.manifest("hand")
    (folder / "edits" / "0.5.9").mkdir(parents=True)
    patch = folder / "edits" / "0.5.9" / "my.patch"
    patch.write_text(f"--- a/{METRICS}\n+++ b/{METRICS}\n@@ -4,1 +4,1 @@\n-TOTALS = {{}}\n+TOTALS = dict()\n")
    before = contents(folder)
    with pytest.raises(OverlayConflict, match=r"cannot be pinned to 0\.5\.9; nothing was written"):
        pin(folder, workshop.base)
    assert contents(folder) == before


def test_all_reasons_against_a_pin_are_given_at_once(workshop: Workshop, tmp_path):
    folder = workshop.manifest("bad")
    files = edited(FILES, {METRICS: [(b"def count(", b"def count((")]})
    files["sglang/srt/new.py"] = b"x = 1\n"
    files.pop(WORKER)
    before = contents(folder)
    with pytest.raises(OverlayConflict) as caught:
        pin(folder, workshop.base, write_release(tmp_path / "edited", files))
    messages = {p.path: p.message for p in caught.value.problems}
    assert messages[WORKER] == "the edited tree lacks it; an overlay cannot remove a file"
    assert messages[METRICS].startswith("the edited file is no Python")
    assert messages["sglang/srt/new.py"].startswith("this new file is not in files/")
    assert contents(folder) == before


def test_new_files_are_taken_when_asked_and_never_from_leftovers(workshop: Workshop, tmp_path):
    folder = workshop.manifest("takes")
    tree = write_release(tmp_path / "edited", {**FILES, "sglang/srt/new.py": b"x = 1\n"})
    for name in ("new.py.orig", "new.py.rej", "__pycache__/new.cpython-311.pyc"):
        (tree / "sglang" / "srt" / name).parent.mkdir(exist_ok=True)
        (tree / "sglang" / "srt" / name).write_bytes(b"leftover")
    pinned = pin(folder, workshop.base, tree, take_modules=True)
    assert pinned.modules == ("sglang/srt/new.py",)
    assert workshop.store.load("takes").modules == {"sglang/srt/new.py": b"x = 1\n"}


def test_a_module_that_the_edited_tree_has_in_another_version_is_named(workshop: Workshop, tmp_path):
    workshop.switch()
    tree = write_release(tmp_path / "edited", {**edited(FILES, SWITCH_EDITS), MODULE: b"# newer\n"})
    with pytest.raises(OverlayConflict) as caught:
        pin(workshop.store.folder("switch"), workshop.base, tree)
    assert [p.path for p in caught.value.problems] == [MODULE]
    assert "differs from the one in files/" in caught.value.problems[0].message
    pin(workshop.store.folder("switch"), workshop.base, tree, take_modules=True)
    assert workshop.store.load("switch").modules == {MODULE: b"# newer\n"}


def test_a_base_tree_that_was_edited_is_refused(workshop: Workshop, tmp_path):
    workshop.manifest("switch")
    (workshop.base / WORKER).write_bytes(FILES[WORKER].replace(b"limit = 8", b"limit = 9"))
    with pytest.raises(OverlayConflict) as caught:
        workshop.pin("switch", SWITCH_EDITS)
    assert "the base tree was edited" in str(caught.value.problems)


def test_a_module_cannot_hide_a_file_of_the_base(workshop: Workshop):
    with pytest.raises(OverlayConflict) as caught:
        workshop.overlay("hides", modules={METRICS: b"x = 1\n"})
    assert [p.path for p in caught.value.problems] == [METRICS]


def test_a_landing_rule_that_the_base_fulfils_is_refused(workshop: Workshop):
    """It would call the pinned release landed, and the overlay would be left out."""
    rule = {"file": METRICS, "contains": "TOTALS = {}"}
    with pytest.raises(OverlayConflict) as caught:
        workshop.faults(upstream={"status": "merged", "landed": [rule]})
    assert "by the manifest it has landed in this base" in caught.value.problems[0].message


def test_an_overlay_is_pinned_out_of_a_tree_that_holds_another_one_too(workshop: Workshop, tmp_path):
    faults = workshop.faults()
    workshop.manifest("switch", order=20)
    tree = write_release(tmp_path / "edited", edited(edited(FILES, FAULT_EDITS), SWITCH_EDITS))
    pin(workshop.store.folder("switch"), workshop.base, tree, below=[faults])
    apart = workshop.store.load("switch").bases
    shutil.rmtree(workshop.store.folder("switch") / "pins")
    workshop.pin("switch", SWITCH_EDITS)
    assert workshop.store.load("switch").bases == apart


def test_lines_that_another_overlay_adds_above_do_not_shift_the_pin(workshop: Workshop, tmp_path):
    switch = workshop.switch()
    workshop.manifest("faults")
    tree = write_release(
        tmp_path / "edited", edited(edited(FILES, SWITCH_EDITS), FAULT_EDITS) | SWITCH_MODULES
    )
    pin(workshop.store.folder("faults"), workshop.base, tree, below=[switch])
    both = compose([switch, workshop.store.load("faults")], "0.5.9").render(FILES.__getitem__)
    assert both[WORKER] == edited(edited(FILES, SWITCH_EDITS), FAULT_EDITS)[WORKER]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"        return result\n\n    def flush", b"        return result\n    # above\n\n    def flush"),
        (
            b"            return switch.step(self, batch)\n",
            b"            return switch.step(self, batch)\n        # right below\n",
        ),
        (b"        if switch.is_off(batch):\n", b"        # right above\n        if switch.is_off(batch):\n"),
        (b"switch.is_off(batch)", b"switch.is_on(batch)"),
    ],
)
def test_an_edit_next_to_another_overlays_lines_is_told_apart_or_refused(
    workshop: Workshop, tmp_path, old, new
):
    """What was pinned composes to the edited file; what touches the other's lines is not pinned."""
    switch = workshop.switch()
    workshop.manifest("more", order=30)
    files = edited(edited(FILES, SWITCH_EDITS), {WORKER: [(old, new)]}) | SWITCH_MODULES
    tree = write_release(tmp_path / "edited", files)
    if b"above\n\n" in new:
        pin(workshop.store.folder("more"), workshop.base, tree, below=[switch])
        both = compose([switch, workshop.store.load("more")], "0.5.9").render(FILES.__getitem__)
        assert both[WORKER] == files[WORKER]
    else:
        with pytest.raises(OverlayConflict) as caught:
            pin(workshop.store.folder("more"), workshop.base, tree, below=[switch])
        assert caught.value.problems[0].message == "it edits lines of switch too"


def test_an_edit_of_another_overlays_lines_is_not_pinned(workshop: Workshop, tmp_path):
    faults = workshop.faults()
    workshop.manifest("more")
    files = edited(edited(FILES, FAULT_EDITS), {METRICS: [(b"max(amount, 0)", b"max(amount, 1)")]})
    with pytest.raises(OverlayConflict) as caught:
        pin(
            workshop.store.folder("more"), workshop.base, write_release(tmp_path / "e", files), below=[faults]
        )
    assert [(p.path, p.overlays) for p in caught.value.problems] == [(METRICS, ("faults",))]


def test_a_tree_without_the_other_overlay_is_not_pinned_as_its_removal(workshop: Workshop, tmp_path):
    faults = workshop.faults()
    workshop.manifest("more")
    tree = write_release(tmp_path / "edited", edited(FILES, SWITCH_EDITS))
    with pytest.raises(OverlayConflict):
        pin(workshop.store.folder("more"), workshop.base, tree, below=[faults])


LATER = edited(
    FILES,
    {
        WORKER: [(b'"""Runs batches."""\n', b'"""Runs batches, and more."""\n\nimport os\n')],
        METRICS: [(b"    lines = []\n", b"    lines = [prefix]\n")],
    },
)


def test_edits_move_to_a_later_release_when_every_line_is_there_once(workshop: Workshop, tmp_path):
    workshop.faults()
    later = write_release(tmp_path / "later", LATER, version="0.5.10")
    pinned = pin(workshop.store.folder("faults"), later, source="0.5.9")
    assert pinned.base == "0.5.10"
    overlay = workshop.store.load("faults")
    assert list(overlay.bases) == ["0.5.10", "0.5.9"]
    apply_to_tree(later, compose([overlay], "0.5.10"))
    expected = edited(LATER, FAULT_EDITS)
    assert {p: (later / p).read_bytes() for p in expected} == expected


def test_an_edit_is_not_moved_into_another_function(workshop: Workshop, tmp_path):
    """In the later release the lines stand once, but in another class: a person has to look."""
    workshop.faults()
    moved = edited(FILES, {WORKER: [(b"    def flush(self):\n", b"class Flusher:\n    def flush(self):\n")]})
    later = write_release(tmp_path / "later", moved, version="0.5.10")
    before = contents(workshop.store.root)
    with pytest.raises(OverlayConflict) as caught:
        pin(workshop.store.folder("faults"), later, source="0.5.9")
    assert [(p.path, p.function) for p in caught.value.problems] == [(WORKER, "Worker.flush")]
    assert contents(workshop.store.root) == before


STEPS = b"    one()\n    two()\n    three()\n    hook()\n    four()\n    five()\n    six()\n"
LOOP = "sglang/loop.py"


@pytest.mark.parametrize(
    ("later", "fits"),
    [
        (b"# moved\n\n\ndef run():\n    zero()\n" + STEPS, True),
        (b"def run():\n    zero()\n" + STEPS + b"    more()\n" + STEPS, False),
        (b"def run():\n    zero()\n" + STEPS + b"\n\ndef again():\n    zero()\n" + STEPS, True),
        (b"def again():\n    zero()\n" + STEPS, False),
        (b"def run():\n    zero()\n" + STEPS.replace(b"two", b"2"), False),
    ],
)
def test_an_edit_moves_only_to_the_one_place_in_its_own_function(workshop: Workshop, tmp_path, later, fits):
    files = {**FILES, LOOP: b"def run():\n    zero()\n" + STEPS}
    overlay = workshop.overlay("hook", {LOOP: [(b"hook()", b"our_hook()")]}, files=files)
    release = write_release(tmp_path / "later", {**FILES, LOOP: later}, version="0.5.10")
    state = verdicts(judge(Tree.open(release), [overlay]))["hook"]
    if fits:
        assert state is State.DRIFTED
        pin(overlay.root, release, source="0.5.9")
        comp = compose([workshop.store.load("hook")], "0.5.10")
        assert comp.render({LOOP: later}.__getitem__) == {LOOP: later.replace(b"hook()", b"our_hook()", 1)}
        return
    assert state is State.CONFLICT
    with pytest.raises(OverlayConflict) as caught:
        pin(overlay.root, release, source="0.5.9")
    assert "places, not one" in caught.value.problems[0].message


def test_pins_of_an_unknown_release_are_no_source(workshop: Workshop):
    workshop.faults()
    with pytest.raises(UsageError, match=r"holds no pins for 0.4.0") as caught:
        pin(workshop.store.folder("faults"), workshop.base, source="0.4.0")
    assert caught.value.hint == "pinned bases: 0.5.9"


def test_nothing_to_pin_and_no_version_are_said(workshop: Workshop, tmp_path):
    folder = workshop.manifest("empty")
    with pytest.raises(UsageError, match="there is nothing to pin"):
        pin(folder, workshop.base)
    with pytest.raises(UsageError, match="does not say its version"):
        pin(folder, write_tree(tmp_path / "tree", version=None))
    assert not (folder / "pins").exists()


def test_files_with_cr_lf_and_no_line_end_and_other_bytes_are_pinned_and_applied(
    workshop: Workshop, tmp_path: Path
):
    files = {
        **FILES,
        "sglang/crlf.py": b"a = 1\r\nb = 2\r\n",
        "sglang/open.py": b"a = 1\nb = 2",
        "sglang/latin.py": b"# -*- coding: latin-1 -*-\n# caf\xe9\nb = 2\n",
        "sglang/data.json": b'{"b": 2}\n',
    }
    edits = {
        "sglang/crlf.py": [(b"b = 2\r\n", b"b = 3\r\nc = 4\r\n")],
        "sglang/open.py": [(b"b = 2", b"b = 3\nc = 4")],
        "sglang/latin.py": [(b"b = 2", b"b = 3  # \xe8")],
        "sglang/data.json": [(b"2", b"3")],
        "sglang/srt/__init__.py": [],
    }
    overlay = workshop.overlay("bytes", edits, files=files)
    tree = write_release(tmp_path / "tree", files)
    before = contents(tree)
    apply_to_tree(tree, compose([overlay], "0.5.9"))
    assert {p: (tree / p).read_bytes() for p in edits} == {p: edited(files, edits)[p] for p in edits}
    from specctl.overlay import remove_from_tree

    remove_from_tree(tree, compose([overlay], "0.5.9"))
    assert contents(tree) == before


def test_a_line_is_added_to_an_empty_file(workshop: Workshop, tmp_path):
    base, empty = workshop.base, "sglang/srt/__init__.py"
    folder = workshop.manifest("fills")
    tree = write_release(tmp_path / "edited", {**FILES, empty: b"import os\n"})
    pin(folder, base, tree)
    overlay = workshop.store.load("fills")
    target = write_release(tmp_path / "target")
    apply_to_tree(target, compose([overlay], "0.5.9"))
    assert (target / empty).read_bytes() == b"import os\n"
