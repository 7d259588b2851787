"""Every state of a tree has its name, its function and its reason; nothing bad is ever called good."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from overlay.builders import (
    FAULT_EDITS,
    FILES,
    METRICS,
    WORKER,
    Workshop,
    contents,
    edited,
    write_release,
    write_tree,
    write_venv,
    write_wheel,
)
from specctl.overlay import Finding, State, Tree, compose, judge, verdicts
from specctl.overlay.apply import settle
from specctl.overlay.pin import pin

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "overlay-judge.yaml").read_text())
KEYS = {
    "name", "version", "kind", "holds", "holds_later", "replace", "then", "install", "write", "remove",
    "crlf", "expect", "findings", "only"
}  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Workshop:
    """One set of overlays for all cases: judging only reads."""
    shop = Workshop(tmp_path_factory.mktemp("shop"))
    shop.switch()
    shop.faults()
    return shop


def replaced(files: dict[str, bytes], pairs: dict[str, list[list[str]]]) -> dict[str, bytes]:
    return edited(
        files, {p: [(old.encode(), new.encode()) for old, new in items] for p, items in pairs.items()}
    )


def build(case: dict, root: Path, shop: Workshop) -> Tree:
    """The tree that a case describes."""
    files = dict(FILES)
    overlays = shop.store.load_all()
    comp = compose(overlays, "0.5.9")
    for name, data in {p: comp.render_file(p, files[p], case.get("holds", [])) for p in comp.edits}.items():
        files[name] = data
    files |= {p: data for p, (owner, data) in comp.modules.items() if owner in case.get("holds", [])}
    files = replaced(files, case.get("replace", {}))
    files |= {path: text.encode() for path, text in case.get("install", {}).items()}
    version = case.get("version", "0.5.9")
    if case.get("kind") == "venv":
        top = root / "venv"
        below = write_venv(top, files, version=version)
    else:
        top = below = write_tree(root / "tree", files, version=version)
    for path, data in replaced(files, case.get("then", {})).items():
        (below / path).write_bytes(data)
    for path in case.get("crlf", []):
        (below / path).write_bytes((below / path).read_bytes().replace(b"\n", b"\r\n"))
    if case.get("holds_later"):
        settle(below, comp, case["holds_later"])
    for path in case.get("remove", []):
        (below / path).unlink()
    for path, text in case.get("write", {}).items():
        (below / path).parent.mkdir(parents=True, exist_ok=True)
        (below / path).write_text(text)
    return Tree.open(top)


def matches(finding: Finding, wanted: dict) -> bool:
    for key, value in wanted.items():
        there = getattr(finding, key)
        if key in ("message", "detail", "hint"):
            if value not in there:
                return False
        elif (there.value if isinstance(there, State) else there) != value:
            return False
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_tree_is_judged(case, tmp_path, shop):
    assert set(case) <= KEYS
    findings = judge(build(case, tmp_path, shop), shop.store.load_all())
    shown = "\n".join(map(str, findings))
    states = verdicts(findings)
    for name, state in case.get("expect", {}).items():
        assert states[name].value == state, shown
    for wanted in case.get("findings", []):
        assert any(matches(f, wanted) for f in findings), f"{wanted}\nis not among\n{shown}"
    bad = [f for f in findings if not f.state.good]
    assert bool(bad) == bool(case.get("findings")), shown
    assert all(f.message and (f.hint or f.detail) for f in bad), shown
    if case.get("only"):
        assert len(bad) == len(case["findings"]), shown


def test_the_cases_cover_every_state():
    named = {state for case in CASES for state in case.get("expect", {}).values()}
    assert named == {state.value for state in State}


def test_a_foreign_edit_is_shown_line_by_line_when_the_base_is_at_hand(tmp_path, shop):
    files = edited(FILES, {WORKER: [(b"    limit = 8\n", b"    limit = 64\n")]})
    tree = Tree.open(write_tree(tmp_path / "tree", files))
    findings = judge(tree, shop.store.load_all(), against=Tree.open(shop.base))
    shown = [f for f in findings if f.overlay == "switch" and not f.state.good]
    assert [(f.function, f.detail) for f in shown] == [("Worker", "-     limit = 8\n+     limit = 64")]


def test_a_foreign_edit_beside_an_applied_overlay_is_shown_without_the_overlay(tmp_path, shop):
    files = edited(edited(FILES, FAULT_EDITS), {METRICS: [(b"TOTALS = {}", b"TOTALS = dict()")]})
    tree = Tree.open(write_tree(tmp_path / "tree", files))
    findings = judge(tree, shop.store.load_all(), against=Tree.open(shop.base))
    shown = [f for f in findings if f.path == METRICS]
    assert [(f.function, f.detail) for f in shown] == [("<module>", "- TOTALS = {}\n+ TOTALS = dict()")]


def test_a_wheel_is_judged_like_a_tree(tmp_path, shop):
    clean = write_wheel(tmp_path / "sglang-0.5.9-py3-none-any.whl")
    assert set(verdicts(judge(Tree.open(clean), shop.store.load_all())).values()) == {State.CLEAN}
    applied = write_wheel(tmp_path / "sglang-0.5.9+specctl.1-py3-none-any.whl", edited(FILES, FAULT_EDITS))
    states = verdicts(judge(Tree.open(applied), shop.store.load_all()))
    assert states == {"faults": State.APPLIED, "switch": State.CLEAN}


def test_a_tree_that_says_no_version_is_known_by_its_bytes(tmp_path, shop):
    tree = Tree.open(write_tree(tmp_path / "tree", version=None))
    assert tree.version is None
    assert set(verdicts(judge(tree, shop.store.load_all())).values()) == {State.CLEAN}


def test_the_nearest_earlier_pins_judge_a_release_without_pins(tmp_path, workshop):
    workshop.faults()
    later = edited(FILES, {METRICS: [(b"TOTALS = {}", b"TOTALS: dict = {}")]})
    write_release(tmp_path / "later", later, version="0.5.12")
    pin(workshop.store.folder("faults"), tmp_path / "later", source="0.5.9")
    newest = edited(later, {METRICS: [(b"    lines = []\n", b"    lines = [prefix]\n")]})
    for version, base in (("0.5.11", "0.5.9"), ("0.5.13", "0.5.12"), ("0.4.0", "0.5.12")):
        tree = Tree.open(write_tree(tmp_path / version, newest | {WORKER: b"# rewritten\n"}, version=version))
        assert {f.base for f in judge(tree, [workshop.store.load("faults")])} == {base}, version


def test_the_pins_whose_bytes_a_tree_has_judge_it_whatever_version_it_says(tmp_path, workshop):
    workshop.faults()
    later = edited(FILES, {METRICS: [(b"TOTALS = {}", b"TOTALS: dict = {}")]})
    pin(
        workshop.store.folder("faults"),
        write_release(tmp_path / "later", later, version="0.5.12"),
        source="0.5.9",
    )
    overlay = workshop.store.load("faults")
    for version in ("0.5.10", "0.6.0.dev0", "0.4.0", None, "not a version"):
        tree = Tree.open(write_tree(tmp_path / f"tree-{version}", later, version=version))
        findings = judge(tree, [overlay])
        assert {(f.base, f.state) for f in findings} == {("0.5.12", State.CLEAN)}, version


LANDED = {"file": METRICS, "contains": "max(amount, 0)"}


@pytest.mark.parametrize(
    ("upstream", "version", "state"),
    [
        ({"status": "merged", "landed": [LANDED]}, "0.5.10", State.LANDED),
        ({"status": "merged", "landed": [{**LANDED, "base": "0.5.10"}]}, "0.5.10", State.LANDED),
        ({"status": "merged", "landed": [{**LANDED, "base": "0.5.11"}]}, "0.5.10", State.CONFLICT),
        ({"status": "merged", "landed": [LANDED, {**LANDED, "contains": "never"}]}, "0.5.10", State.CONFLICT),
        ({"status": "merged", "landed_in": "0.5.10"}, "0.5.10", State.LANDED),
        ({"status": "merged", "landed_in": "0.5.10"}, "0.5.10.post1", State.LANDED),
        ({"status": "merged", "landed_in": "0.5.11"}, "0.5.10", State.CONFLICT),
        (
            {"status": "merged", "landed_in": "0.5.10", "landed": [{**LANDED, "contains": "no"}]},
            "0.5.10",
            State.CONFLICT,
        ),
        (
            {"status": "merged", "landed_in": "0.5.10", "landed": [{**LANDED, "base": "1.0"}]},
            "0.5.10",
            State.LANDED,
        ),
        ({"status": "merged", "landed": [LANDED]}, "0.5.9", State.FOREIGN),
    ],
)
def test_the_manifest_says_how_landing_shows(tmp_path, workshop, upstream, version, state):
    """The file landed in another shape than ours, so that only the manifest can know."""
    overlay = workshop.overlay("faults", {METRICS: FAULT_EDITS[METRICS]}, upstream=upstream)
    landed = edited(
        FILES,
        {
            METRICS: [
                (
                    b"    TOTALS[name] = TOTALS.get(name, 0) + amount\n",
                    b"    TOTALS[name] += max(amount, 0)\n",
                )
            ]
        },
    )
    tree = Tree.open(write_tree(tmp_path / "tree", landed, version=version))
    assert verdicts(judge(tree, [overlay])) == {"faults": state}


def test_lines_that_the_base_has_already_are_no_sign_of_having_landed(tmp_path, workshop):
    """Adding a second `logger.debug("flushed")` must not look landed in a release that still has one."""
    line = b'        logger.debug("flushed")\n'
    overlay = workshop.overlay(
        "twice",
        {WORKER: [(line + b"        self.model.reset()\n", line + b"        self.model.reset()\n" + line)]},
    )
    assert not overlay.bases["0.5.9"].edits[WORKER].telling
    later = edited(FILES, {WORKER: [(b"    limit = 8\n", b"    limit = 9\n")]})
    tree = Tree.open(write_tree(tmp_path / "tree", later, version="0.5.10"))
    assert verdicts(judge(tree, [overlay])) == {"twice": State.DRIFTED}


def test_a_note_of_one_file_counts_for_that_file_only(tmp_path, workshop):
    note = {"reason": "r", "upstream": {"status": "merged", "landed_in": "0.5.10"}}
    overlay = workshop.faults(edits={METRICS: note})
    files = edited(
        FILES,
        {
            METRICS: [(b"+ amount", b"+ int(amount)")],
            WORKER: [(b"self.steps = 0\n        logger.debug", b"self.steps = 1\n        logger.debug")],
        },
    )
    tree = Tree.open(write_tree(tmp_path / "tree", files, version="0.5.10"))
    states = {f.path: f.state for f in judge(tree, [overlay])}
    assert states == {METRICS: State.LANDED, WORKER: State.CONFLICT}


def test_an_overlay_without_pins_is_a_finding_not_a_crash(tmp_path, workshop):
    workshop.manifest("empty")
    findings = judge(Tree.open(workshop.base), [workshop.store.load("empty")])
    assert [(f.overlay, f.state) for f in findings] == [("empty", State.CONFLICT)]


def test_judging_writes_nothing(tmp_path, shop):
    tree = write_tree(tmp_path / "tree")
    before = contents(tree)
    judge(Tree.open(tree), shop.store.load_all())
    assert contents(tree) == before
