"""Applying and removing: to the byte, all or nothing, never the wrong function."""

from __future__ import annotations

import errno
import os
import stat
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
    WORKER_TEXT,
    Workshop,
    contents,
    edited,
    write_tree,
)
from specctl.overlay import OverlayConflict, TreeWriteError, apply_to_tree, compose, remove_from_tree
from specctl.overlay.apply import settle
from specctl.overlay.transaction import Disk


@pytest.fixture
def both(workshop: Workshop):
    return compose([workshop.switch(), workshop.faults()], "0.5.9")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree")


def test_applying_writes_every_hook_and_module(tree, both):
    changed = apply_to_tree(tree, both)
    expected = edited(FILES, SWITCH_EDITS)
    expected = edited(expected, FAULT_EDITS) | SWITCH_MODULES
    assert changed == sorted([WORKER, METRICS, MODULE])
    assert {path: (tree / path).read_bytes() for path in expected} == expected


def test_applying_twice_changes_nothing_the_second_time(tree, both):
    apply_to_tree(tree, both)
    before = {path: (tree / path).stat().st_mtime_ns for path in (WORKER, METRICS, MODULE)}
    assert apply_to_tree(tree, both) == []
    assert {path: (tree / path).stat().st_mtime_ns for path in before} == before


def test_removing_restores_the_bytes_and_leaves_no_folder_behind(tree, both):
    before = contents(tree)
    apply_to_tree(tree, both)
    assert remove_from_tree(tree, both) == sorted([WORKER, METRICS, MODULE])
    assert contents(tree) == before
    assert not (tree / MODULE).parent.exists()


def test_removing_what_was_never_applied_changes_nothing(tree, both):
    before = contents(tree)
    assert remove_from_tree(tree, both) == []
    assert contents(tree) == before


def test_removing_twice_does_not_take_away_lines_of_the_base(tree, both):
    apply_to_tree(tree, both)
    remove_from_tree(tree, both)
    before = contents(tree)
    assert remove_from_tree(tree, both) == []
    assert contents(tree) == before


def test_one_of_two_overlays_can_be_taken_out_of_a_file_that_both_edit(tree, both):
    apply_to_tree(tree, both)
    remove_from_tree(tree, both, keep={"faults"})
    assert (tree / WORKER).read_bytes() == edited(FILES, FAULT_EDITS)[WORKER]
    assert not (tree / MODULE).exists()


def test_an_overlay_can_be_added_to_a_file_that_another_edited_before(tree, both):
    settle(tree, both, {"switch"})
    settle(tree, both, {"switch", "faults"})
    assert (tree / WORKER).read_bytes() == edited(edited(FILES, SWITCH_EDITS), FAULT_EDITS)[WORKER]


def test_a_half_applied_tree_is_completed(tree, both):
    (tree / METRICS).write_bytes(edited(FILES, FAULT_EDITS)[METRICS])
    assert METRICS not in apply_to_tree(tree, both)
    assert (tree / MODULE).exists()


def test_nothing_is_written_when_one_file_does_not_fit_and_all_misfits_are_named(tree, both):
    (tree / WORKER).write_bytes(WORKER_TEXT.replace(b"limit = 8", b"limit = 9"))
    (tree / METRICS).write_bytes(b"# rewritten\n")
    (tree / MODULE).parent.mkdir()
    (tree / MODULE).write_bytes(b"# somebody else's\n")
    before = contents(tree)
    with pytest.raises(OverlayConflict) as caught:
        apply_to_tree(tree, both)
    assert {p.path for p in caught.value.problems} == {WORKER, METRICS, MODULE}
    assert contents(tree) == before


def test_a_hook_whose_lines_moved_is_refused_not_applied_with_an_offset(tree, both):
    (tree / WORKER).write_bytes(b"# one more line\n" + WORKER_TEXT)
    with pytest.raises(OverlayConflict):
        apply_to_tree(tree, both)


def test_a_hook_never_lands_in_the_other_class_with_the_same_lines(tmp_path, workshop):
    """With its own function gone, the same lines in DraftWorker are the best place that fuzz would find."""
    text = WORKER_TEXT.replace(b"self.model.draft(batch)", b"self.model(batch)").replace(b"drafted", b"ran")
    files = {**FILES, WORKER: text}
    hook = (
        b"class DraftWorker(Worker):\n    def forward(self, batch):\n        if not batch:\n",
        b"class DraftWorker(Worker):\n    def forward(self, batch):\n        if batch is None:\n",
    )
    overlay = workshop.overlay("draft", {WORKER: [hook]}, files=files)
    only_worker = text[: text.index(b"class DraftWorker")]
    tree = write_tree(tmp_path / "without", {**files, WORKER: only_worker})
    with pytest.raises(OverlayConflict):
        apply_to_tree(tree, compose([overlay], "0.5.9"))
    assert (tree / WORKER).read_bytes() == only_worker


def test_an_edited_module_of_ours_is_not_removed(tree, both):
    apply_to_tree(tree, both)
    (tree / MODULE).write_bytes(b"# edited on the host\n")
    before = contents(tree)
    with pytest.raises(OverlayConflict) as caught:
        remove_from_tree(tree, both)
    assert [p.path for p in caught.value.problems] == [MODULE]
    assert contents(tree) == before


def test_a_missing_file_is_named(tree, both):
    (tree / METRICS).unlink()
    with pytest.raises(OverlayConflict, match="does not fit") as caught:
        apply_to_tree(tree, both)
    assert [(p.path, p.message) for p in caught.value.problems] == [(METRICS, "the tree has no such file")]


def test_hard_links_into_a_package_cache_are_broken_not_written_through(tree, tmp_path, both):
    cache = tmp_path / "cache.py"
    os.link(tree / WORKER, cache)
    apply_to_tree(tree, both)
    assert cache.read_bytes() == WORKER_TEXT
    assert (tree / WORKER).stat().st_nlink == 1


def test_a_symbolic_link_into_a_cache_is_replaced_not_written_through(tree, tmp_path, both):
    cache = tmp_path / "cache.py"
    (tree / WORKER).rename(cache)
    (tree / WORKER).symlink_to(cache)
    apply_to_tree(tree, both)
    assert cache.read_bytes() == WORKER_TEXT
    assert not (tree / WORKER).is_symlink()
    remove_from_tree(tree, both)
    assert (tree / WORKER).read_bytes() == WORKER_TEXT


def test_a_folder_link_that_leads_out_of_the_tree_is_refused(tree, tmp_path, both):
    outside = tmp_path / "outside"
    (tree / "sglang" / "srt").rename(outside)
    (tree / "sglang" / "srt").symlink_to(outside, target_is_directory=True)
    before = contents(outside)
    with pytest.raises(OverlayConflict) as caught:
        apply_to_tree(tree, both)
    assert {p.message for p in caught.value.problems} == {"a symbolic link leads out of the tree"}
    assert contents(outside) == before


def test_a_link_to_nothing_is_named(tree, both):
    (tree / METRICS).unlink()
    (tree / METRICS).symlink_to("nowhere.py")
    with pytest.raises(OverlayConflict) as caught:
        apply_to_tree(tree, both)
    assert "it is a symbolic link to nothing" in {p.message for p in caught.value.problems}


def test_the_tree_itself_may_be_a_link(tree, tmp_path, both):
    (tmp_path / "alias").symlink_to(tree, target_is_directory=True)
    apply_to_tree(tmp_path / "alias", both)
    assert (tree / MODULE).exists()


def test_file_modes_stay(tree, both):
    (tree / WORKER).chmod(0o640)
    apply_to_tree(tree, both)
    assert stat.S_IMODE((tree / WORKER).stat().st_mode) == 0o640


def test_compiled_files_that_would_hide_an_edit_go_away(tree, both):
    cache = tree / "sglang" / "srt" / "__pycache__"
    cache.mkdir()
    (cache / "worker.cpython-311.pyc").write_bytes(b"old")
    (cache / "other.cpython-311.pyc").write_bytes(b"not ours")
    apply_to_tree(tree, both)
    assert [p.name for p in cache.iterdir()] == ["other.cpython-311.pyc"]
    module_cache = (tree / MODULE).parent / "__pycache__"
    module_cache.mkdir()
    (module_cache / "__init__.cpython-311.pyc").write_bytes(b"ours")
    remove_from_tree(tree, both)
    assert not (tree / MODULE).parent.exists()


class BrokenDisk(Disk):
    """Fails at the given call of one operation, as a full disk or a bad sector does."""

    def __init__(self, operation: str, at: int, error: BaseException) -> None:
        self.operation, self.left, self.error = operation, at, error

    def _maybe(self, operation: str) -> None:
        if operation == self.operation:
            self.left -= 1
            if self.left < 0:
                raise self.error

    def write(self, path, data, like):
        if self.operation == "write" and self.left == 0:
            path.write_bytes(data[: len(data) // 2])
        self._maybe("write")
        super().write(path, data, like)

    def rename(self, source, target):
        self._maybe("rename")
        super().rename(source, target)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("operation", ["write", "rename"])
def test_a_disk_error_at_any_step_leaves_the_tree_as_it_was(tree, both, operation, at):
    before = contents(tree)
    with pytest.raises(TreeWriteError, match=r"No space left on device; nothing was changed") as caught:
        apply_to_tree(tree, both, disk=BrokenDisk(operation, at, FULL))
    assert contents(tree) == before
    assert not (tree / MODULE).parent.exists()
    assert caught.value.context["file"].startswith(str(tree))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_disk_error_while_removing_leaves_the_overlay_whole(tree, both, at):
    apply_to_tree(tree, both)
    before = contents(tree)
    with pytest.raises(TreeWriteError, match="nothing was changed"):
        remove_from_tree(tree, both, disk=BrokenDisk("rename", at, FULL))
    assert contents(tree) == before


@pytest.mark.parametrize("operation", ["write", "rename"])
def test_an_interrupt_leaves_the_tree_as_it_was(tree, both, operation):
    before = contents(tree)
    with pytest.raises(KeyboardInterrupt):
        apply_to_tree(tree, both, disk=BrokenDisk(operation, 1, KeyboardInterrupt()))
    assert contents(tree) == before


def test_a_failure_of_going_back_says_which_file_and_where_its_old_bytes_are(tree, both, monkeypatch):
    class Dead(BrokenDisk):
        def rename(self, source, target):
            try:
                super().rename(source, target)
            except OSError:
                monkeypatch.setattr(Path, "replace", _refuse)
                raise

    def _refuse(self, target):
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(TreeWriteError, match=r"could not be put back: .*metrics\.py.*its old bytes"):
        apply_to_tree(tree, both, disk=Dead("rename", 1, FULL))


def test_a_read_only_tree_is_refused_in_one_sentence(tree, both, unprivileged):
    folders = [p for p in [tree, *tree.rglob("*")] if p.is_dir()]
    for path in folders:
        path.chmod(0o555)
    before = contents(tree)
    with unprivileged(), pytest.raises(TreeWriteError, match="Permission denied; nothing was changed"):
        apply_to_tree(tree, both)
    for path in folders:
        path.chmod(0o755)
    assert contents(tree) == before


def test_an_unreadable_file_is_a_problem_beside_the_others(tree, both, unprivileged):
    (tree / METRICS).chmod(0o000)
    (tree / WORKER).write_bytes(b"# rewritten\n")
    with unprivileged(), pytest.raises(OverlayConflict) as caught:
        apply_to_tree(tree, both)
    messages = {(p.path, p.message) for p in caught.value.problems}
    assert (METRICS, "it cannot be read: Permission denied") in messages
    assert WORKER in {path for path, _ in messages}
