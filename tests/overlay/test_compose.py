"""Several overlays on one base: composed in the base's lines, conflicts named with both overlays."""

from __future__ import annotations

import pytest

from overlay.builders import FAULT_EDITS, FILES, METRICS, MODULE, SWITCH_EDITS, WORKER, Workshop, edited
from specctl.errors import UsageError
from specctl.overlay import OverlayConflict, compose


def test_rendering_gives_every_edited_and_added_file(workshop: Workshop):
    comp = compose([workshop.switch(), workshop.faults()], "0.5.9")
    rendered = comp.render(FILES.__getitem__)
    assert list(rendered) == sorted([WORKER, METRICS, MODULE])
    assert rendered[WORKER] == edited(edited(FILES, SWITCH_EDITS), FAULT_EDITS)[WORKER]
    assert [o.name for o in comp.overlays] == ["faults", "switch"]


def test_a_local_version_means_its_base(workshop: Workshop):
    assert compose([workshop.faults()], "0.5.9+specctl.4").base_version == "0.5.9"


def test_a_base_without_pins_is_refused_with_the_pinned_ones(workshop: Workshop):
    with pytest.raises(UsageError, match=r"faults holds no pins for SGLang 0.5.10") as caught:
        compose([workshop.faults()], "0.5.10")
    assert caught.value.context == {"faults": "pinned for 0.5.9"}
    assert caught.value.code == "overlay-unsupported-base"


def test_two_overlays_on_the_same_lines_are_refused_with_both_names_and_the_lines(workshop: Workshop):
    line = b"    TOTALS[name] = TOTALS.get(name, 0) + amount\n"
    where = FILES[METRICS][: FILES[METRICS].index(line)].count(b"\n") + 1
    one = workshop.overlay("one", {METRICS: [(line, line.replace(b"amount", b"int(amount)"))]})
    two = workshop.overlay("two", {METRICS: [(line, line.replace(b"amount", b"abs(amount)"))]})
    with pytest.raises(OverlayConflict) as caught:
        compose([one, two], "0.5.9")
    (problem,) = caught.value.problems
    assert (problem.path, problem.overlays, problem.lines) == (METRICS, ("one", "two"), f"{where}-{where}")
    assert problem.message == "one and two edit the same lines"
    assert problem.detail == f"one: replaces line {where}\ntwo: replaces line {where}"


def test_every_conflict_is_reported_at_once(workshop: Workshop):
    both = {
        METRICS: [(b"TOTALS = {}\n", b"TOTALS = dict()\n"), (b"    lines = []\n", b"    lines = list()\n")]
    }
    one = workshop.overlay("one", both, {MODULE: b"x = 1\n"})
    two = workshop.overlay("two", both, {MODULE: b"x = 2\n"})
    with pytest.raises(OverlayConflict) as caught:
        compose([one, two], "0.5.9")
    assert [p.message for p in caught.value.problems] == [
        "one and two edit the same lines",
        "one and two edit the same lines",
        "both add this module",
    ]
    assert len(caught.value.context) == 3
    assert len(caught.value.as_dict()["problems"]) == 3


def test_overlays_that_pin_different_bytes_of_one_base_are_refused(workshop: Workshop):
    one = workshop.faults()
    other = edited(FILES, {METRICS: [(b'"""Counts things."""', b'"""Counts."""')]})
    two = workshop.overlay("two", {METRICS: [(b"    lines = []\n", b"    lines = list()\n")]}, files=other)
    with pytest.raises(OverlayConflict) as caught:
        compose([one, two], "0.5.9")
    assert [p.message for p in caught.value.problems] == ["the overlays pin different bytes of this file"]


def test_an_edit_of_another_overlays_module_is_refused(workshop: Workshop):
    adds = workshop.overlay("adds", modules={"sglang/srt/extra.py": b"x = 1\n"})
    files = {**FILES, "sglang/srt/extra.py": b"x = 1\n"}
    edits = workshop.overlay("edits", {"sglang/srt/extra.py": [(b"1", b"2")]}, files=files)
    with pytest.raises(OverlayConflict) as caught:
        compose([adds, edits], "0.5.9")
    assert [p.message for p in caught.value.problems] == ["one edits what the other adds"]


def test_context_may_overlap_as_long_as_lines_between_stay(workshop: Workshop):
    """Two edits two lines apart share context; each is checked against the base, so neither is fuzzed."""
    one = workshop.overlay(
        "one", {WORKER: [(b"        self.model = model\n", b"        self.model = wrap(model)\n")]}
    )
    two = workshop.overlay(
        "two",
        {
            WORKER: [
                (
                    b"        self.steps = 0\n        logger.info",
                    b"        self.steps = 1\n        logger.info",
                )
            ]
        },
    )
    rendered = compose([two, one], "0.5.9").render(FILES.__getitem__)[WORKER]
    assert (
        b"self.model = wrap(model)\n        self.batch_size = batch_size\n        self.steps = 1\n"
        in rendered
    )


def test_rendering_names_all_that_does_not_fit(workshop: Workshop):
    comp = compose([workshop.switch(), workshop.faults()], "0.5.9")
    changed = {
        WORKER: FILES[WORKER].replace(b"self.steps += 1", b"self.steps += 2", 1),
        MODULE: b"# upstream's\n",
    }
    with pytest.raises(OverlayConflict) as caught:
        comp.render(changed.__getitem__)
    found = {(p.path, p.function, p.message) for p in caught.value.problems}
    assert (METRICS, None, "the base has no such file") in found
    assert (WORKER, None, "its bytes are not the pinned base's") in found
    assert (WORKER, "Worker.forward", "the lines that the edit expects are not there") in found
    assert (MODULE, None, "the base has a file where this module belongs") in found
    (misfit,) = (p for p in caught.value.problems if p.function == "Worker.forward")
    assert misfit.detail == "-         self.steps += 1\n+         self.steps += 2"


def test_terminal_codes_in_a_file_do_not_reach_the_terminal(workshop: Workshop):
    comp = compose([workshop.faults()], "0.5.9")
    evil = {**FILES, METRICS: FILES[METRICS].replace(b"TOTALS[name] = TOTALS", b"\x1b[2J = TOTALS\xff")}
    with pytest.raises(OverlayConflict) as caught:
        comp.render(evil.__getitem__)
    shown = "".join(p.detail for p in caught.value.problems)
    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown
