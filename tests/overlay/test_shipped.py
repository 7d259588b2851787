"""The overlays that specctl ships: consistent, pinned, apart from each other, explained."""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path

import pytest

from specctl.overlay import (
    OverlayStore,
    State,
    Tree,
    apply_to_tree,
    compose,
    judge,
    remove_from_tree,
    verdicts,
)

STORE = OverlayStore.discover()
BASE_TREE = os.environ.get("SPECCTL_TEST_BASE_TREE")


@pytest.mark.parametrize("name", STORE.names())
def test_a_shipped_overlay_is_pinned_as_it_lies_there(name):
    overlay = STORE.load(name)
    assert overlay.bases
    for pins in overlay.bases.values():
        assert set(overlay.notes) == set(pins.edits), "each edited file has a reason of its own"


@pytest.mark.parametrize("name", STORE.names())
def test_modules_of_a_shipped_overlay_are_python(name):
    for path, data in STORE.load(name).modules.items():
        assert path.startswith("sglang/"), path
        if path.endswith(".py"):
            ast.parse(data)


def test_shipped_overlays_fit_together_on_every_base_that_both_pin():
    overlays = STORE.load_all()
    bases = {base for overlay in overlays for base in overlay.bases}
    assert bases
    for base in bases:
        comp = compose([o for o in overlays if base in o.bases], base)
        assert comp.edits


@pytest.mark.skipif(not BASE_TREE, reason="SPECCTL_TEST_BASE_TREE names no unpacked base")
def test_shipped_overlays_go_into_the_published_files_and_out_again(tmp_path):
    base = Tree.open(Path(BASE_TREE or ""))
    overlays = STORE.load_all()
    comp = compose(overlays, base.version or "")
    tree = tmp_path / "tree"
    shutil.copytree(base.root, tree)
    before = {path: (tree / path).read_bytes() for path in Tree.open(tree).sources()}
    assert set(verdicts(judge(Tree.open(tree), overlays)).values()) == {State.CLEAN}
    apply_to_tree(tree, comp)
    findings = judge(Tree.open(tree), overlays)
    assert {f.state for f in findings} == {State.APPLIED}, [f for f in findings if not f.state.good]
    assert apply_to_tree(tree, comp) == []
    for path in comp.edits:
        compile((tree / path).read_bytes(), path, "exec")
    remove_from_tree(tree, comp)
    assert {path: (tree / path).read_bytes() for path in Tree.open(tree).sources()} == before
