"""Revision numbers: one number stands for one set of inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from base.builders import refuse

from specctl.base.errors import WriteFailed
from specctl.build.errors import RevisionTaken
from specctl.build.revision import Change, Chosen, Pin, choose, inputs_digest, read_pins, write_pin
from specctl.errors import UsageError
from specctl.overlay import OverlayStore

OLD, NEW = "a" * 64, "b" * 64
PINS = {"0.5.9": Pin(4, OLD)}


@pytest.mark.parametrize(
    ("inputs", "explicit", "change", "expected"),
    [
        (OLD, None, Change.KEEP, Chosen(4, None)),
        (OLD, None, Change.BUMP, Chosen(4, None)),
        (NEW, None, Change.BUMP, Chosen(5, Pin(5, NEW))),
        (NEW, None, Change.REPIN, Chosen(4, Pin(4, NEW))),
        (NEW, 9, Change.KEEP, Chosen(9, None)),
        (NEW, 9, Change.BUMP, Chosen(9, Pin(9, NEW))),
    ],
)
def test_the_pin_decides_the_number(
    inputs: str, explicit: int | None, change: Change, expected: Chosen
) -> None:
    assert choose("0.5.9", inputs, PINS, explicit=explicit, change=change) == expected


def test_changed_inputs_do_not_get_a_number_that_is_taken() -> None:
    with pytest.raises(RevisionTaken) as caught:
        choose("0.5.9", NEW, PINS)
    assert caught.value.context == {"pinned": f"inputs {OLD}", "now": f"inputs {NEW}"}
    assert "--revision 5" in (caught.value.hint or "")
    assert caught.value.exit_code == 2


def test_a_base_without_a_pin_starts_at_one() -> None:
    assert choose("0.5.10", NEW, PINS) == Chosen(1, None)
    assert choose("0.5.10", NEW, PINS, change=Change.BUMP) == Chosen(1, Pin(1, NEW))


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="1 or more"):
        choose("0.5.9", NEW, PINS, explicit=0)


def test_base_overlay_name_and_overlay_content_all_count(store: OverlayStore) -> None:
    small = store.load("small")
    digests = {
        inputs_digest(OLD, [small]),
        inputs_digest(NEW, [small]),
        inputs_digest(OLD, []),
        inputs_digest(OLD, [replace(small, sha256=NEW)]),
        inputs_digest(OLD, [replace(small, name="other")]),
    }
    assert len(digests) == 5
    two = [small, replace(small, name="other")]
    assert inputs_digest(OLD, two) == inputs_digest(OLD, two[::-1])


def test_writing_a_pin_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "distribution.yaml"
    assert read_pins(path) == {}
    write_pin(path, "0.5.9", Pin(1, OLD))
    write_pin(path, "0.5.10", Pin(2, NEW))
    write_pin(path, "0.5.9", Pin(2, NEW))
    assert read_pins(path) == {"0.5.9": Pin(2, NEW), "0.5.10": Pin(2, NEW)}
    assert [p.name for p in tmp_path.iterdir()] == ["distribution.yaml"]


@pytest.mark.parametrize(
    "text", ["revisions: [", "revisions: [1]", "revisions: {0.5.9: {revision: x}}", "- 1"]
)
def test_a_damaged_list_of_revisions_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "distribution.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match="no list of revisions") as caught:
        read_pins(path)
    assert caught.value.context["file"] == str(path)


def test_a_full_disk_keeps_the_old_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "distribution.yaml"
    write_pin(path, "0.5.9", Pin(1, OLD))
    monkeypatch.setattr("os.fsync", refuse(28))
    with pytest.raises(WriteFailed):
        write_pin(path, "0.5.9", Pin(2, NEW))
    assert read_pins(path) == {"0.5.9": Pin(1, OLD)}
    assert [p.name for p in tmp_path.iterdir()] == ["distribution.yaml"]
