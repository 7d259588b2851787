"""`specctl overlay` as a user types it: exit codes, tables, JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest

from overlay.builders import (
    FAULT_EDITS,
    FILES,
    METRICS,
    MODULE,
    WORKER,
    Workshop,
    contents,
    edited,
    write_release,
    write_tree,
    write_venv,
    write_wheel,
)
from specctl.cli.main import main
from specctl.cli.overlay import complete_name, overlay
from specctl.overlay import State


class Cli:
    """Runs one command line; `code` is what the shell would see."""

    def __init__(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.store, self.capsys = store, capsys

    def __call__(self, *args: object) -> Cli:
        with pytest.raises(SystemExit) as caught:
            main(["overlay", "--overlays", str(self.store), *(str(arg) for arg in args)])
        self.code = caught.value.code
        self.out, self.err = self.capsys.readouterr()
        return self

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def cli(workshop: Workshop, capsys, monkeypatch) -> Cli:
    monkeypatch.setenv("COLUMNS", "240")
    workshop.switch()
    workshop.faults()
    return Cli(workshop.store.root, capsys)


BROKEN = {
    State.LANDED: [(b"+ amount\n", b"+ max(amount, 0)\n"), (b"    lines = []\n", b"    lines = [prefix]\n")],
    State.DRIFTED: [(b"    lines = []\n", b"    lines = [prefix]\n")],
    State.CONFLICT: [(b"def count(", b"def increment(")],
}


@pytest.mark.parametrize("state", BROKEN)
def test_status_exits_3_on_anything_but_clean_and_applied(cli, tmp_path, state):
    tree = write_tree(tmp_path / "tree", edited(FILES, {METRICS: BROKEN[state]}), version="0.5.10")
    run = cli("status", tree)
    assert run.code == 3
    assert f"{state.value}: {METRICS}" in run.out
    run = cli("status", tree, "--json")
    assert (run.code, run.json["state"], run.json["overlays"]["faults"]) == (3, state.value, state.value)


def test_status_exits_3_on_a_foreign_edit_and_shows_it(cli, tmp_path, workshop):
    (tmp_path / "tree").mkdir()
    tree = write_tree(tmp_path / "tree", edited(FILES, {WORKER: [(b"limit = 8", b"limit = 9")]}))
    run = cli("status", tree, "--against", workshop.base)
    assert run.code == 3
    assert "foreign-edit: sglang/srt/worker.py [switch]\n  Worker: neither the file of 0.5.9" in run.out
    assert "\n    -     limit = 8\n    +     limit = 9\n  hint: install the release again" in run.out


def test_status_exits_3_on_a_foreign_edit_in_a_file_that_no_overlay_touches(cli, tmp_path):
    site = write_venv(tmp_path / "venv")
    (site / "sglang" / "__init__.py").write_bytes(b"print('debug')\n")
    run = cli("status", tmp_path / "venv", "--overlay", "switch")
    assert run.code == 3
    assert "sglang/__init__.py" in run.out


def test_status_exits_0_when_clean_and_when_applied(cli, tmp_path):
    tree = write_release(tmp_path / "tree")
    assert cli("status", tree).code == 0
    assert cli("apply", tree).code == 0
    run = cli("status", tree, "--json")
    assert (run.code, run.json["overlays"]) == (0, {"faults": "applied", "switch": "applied"})
    assert {f["path"] for f in run.json["findings"]} == {WORKER, METRICS, MODULE}
    assert cli("status", write_wheel(tmp_path / "a.whl")).code == 0


def test_status_of_one_overlay_leaves_the_other_out(cli, tmp_path):
    tree = write_tree(tmp_path / "tree", edited(FILES, {METRICS: BROKEN[State.CONFLICT]}), version="0.5.10")
    assert cli("status", tree, "--overlay", "switch").code == 0
    assert cli("status", tree, "--overlay", "faults").code == 3


def test_status_without_tree_judges_the_active_environment(cli, tmp_path, monkeypatch):
    write_venv(tmp_path / "venv")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    run = cli("status", "--json")
    assert (run.code, run.json["kind"]) == (0, "installed")
    monkeypatch.delenv("VIRTUAL_ENV")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "empty"))
    run = cli("status")
    assert run.code == 2
    assert "no TREE was given" in run.err


def test_status_says_when_there_is_no_record_to_compare_with(cli, tmp_path):
    run = cli("status", write_tree(tmp_path / "tree"))
    assert "no RECORD" in run.err
    assert "no RECORD" not in cli("status", write_release(tmp_path / "release")).err


def test_apply_and_remove_say_what_they_changed(cli, tmp_path):
    tree = write_release(tmp_path / "tree")
    before = contents(tree)
    run = cli("apply", tree, "--overlay", "faults", "--json")
    assert run.json == {
        "tree": str(tree),
        "base": "0.5.9",
        "overlays": ["faults"],
        "changed": [METRICS, WORKER],
    }
    run = cli("apply", tree, "--overlay", "switch", "--json")
    assert run.json["overlays"] == ["faults", "switch"]
    run = cli("remove", tree, "--overlay", "faults", "--json")
    assert (run.code, run.json["overlays"], run.json["changed"]) == (0, ["switch"], [METRICS, WORKER])
    run = cli("remove", tree)
    assert (run.code, run.out) == (0, f"{MODULE}\n{WORKER}\n")
    assert contents(tree) == before
    run = cli("remove", tree)
    assert (run.code, run.out) == (0, "")
    assert "nothing to do" in run.err


def test_a_failed_apply_never_exits_0_and_names_every_file(cli, tmp_path):
    files = edited(
        FILES, {METRICS: [(b"+ amount", b"+ int(amount)")], WORKER: [(b"limit = 8", b"limit = 9")]}
    )
    tree = write_release(tmp_path / "tree", files)
    before = contents(tree)
    run = cli("apply", tree)
    assert run.code == 1
    assert METRICS in run.err
    assert WORKER in run.err
    run = cli("apply", tree, "--json")
    assert run.code == 1
    assert {p["path"] for p in run.json["error"]["problems"]} == {METRICS, WORKER}
    assert contents(tree) == before


def test_an_environment_is_edited_only_when_insisted(cli, tmp_path):
    site = write_venv(tmp_path / "venv")
    before = contents(site)
    run = cli("apply", tmp_path / "venv")
    assert run.code == 2
    assert "which may be serving" in run.err
    assert contents(site) == before
    assert cli("apply", tmp_path / "venv", "--in-environment").code == 0
    assert cli("status", tmp_path / "venv").code == 0
    assert cli("remove", tmp_path / "venv", "--in-environment").code == 0
    assert contents(site) == before


def test_a_wheel_is_not_edited(cli, tmp_path):
    wheel = write_wheel(tmp_path / "sglang-0.5.9-py3-none-any.whl")
    before = wheel.read_bytes()
    run = cli("apply", wheel)
    assert run.code == 2
    assert "specctl build" in run.err
    assert wheel.read_bytes() == before


def test_a_release_without_pins_is_not_edited(cli, tmp_path):
    tree = write_release(tmp_path / "tree", version="0.5.10")
    run = cli("apply", tree)
    assert run.code == 2
    assert "no pins for SGLang 0.5.10" in run.err
    assert cli("status", tree).code == 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["show", "swich"], "did you mean 'switch'?"),
        (["status", "TREE", "--overlay", "swich"], "did you mean 'switch'?"),
        (["apply", "TREE", "--overlay", "zzz"], "known: faults, switch"),
        (["status", "nowhere"], "does not exist"),
        (
            ["pin", "switch", "--base-tree", "TREE", "--edited-tree", "TREE", "--from", "0.5.9"],
            "exclude each other",
        ),
    ],
)
def test_wrong_usage_exits_2(cli, tmp_path, args, says):
    tree = write_release(tmp_path / "tree")
    run = cli(*(tree if arg == "TREE" else arg for arg in args))
    assert run.code == 2
    assert says in run.err


def test_the_shell_completes_overlay_names(cli):
    context = click.Context(overlay)
    context.meta["specctl.overlays"] = cli.store
    assert complete_name(context, overlay.params[0], "sw") == ["switch"]
    assert complete_name(context, overlay.params[0], "") == ["faults", "switch"]
    context.meta["specctl.overlays"] = cli.store / "nowhere"
    assert complete_name(context, overlay.params[0], "") == []


def test_list_and_show(cli):
    run = cli("list")
    assert [line.split()[0] for line in run.out.splitlines()] == ["overlay", "faults", "switch"]
    names = [(o["name"], o["bases"]) for o in cli("list", "--json").json]
    assert names == [("faults", ["0.5.9"]), ("switch", ["0.5.9"])]
    run = cli("show", "switch")
    for text in ("why switch exists", WORKER, "Worker.forward", MODULE, "upstream  ours"):
        assert text in run.out
    shown = cli("show", "faults", "--json").json
    assert [e["file"] for e in shown["edits"]["0.5.9"]] == [METRICS, WORKER]
    assert set(shown["edits"]["0.5.9"][0]["functions"]) == {"count"}


def test_pin_prints_what_it_wrote(cli, tmp_path, workshop):
    copy = write_release(tmp_path / "edited", edited(FILES, {METRICS: FAULT_EDITS[METRICS]}))
    run = cli("pin", "faults", "--base-tree", workshop.base, "--edited-tree", copy, "--json")
    assert (run.code, run.json["base"]) == (0, "0.5.9")
    assert run.json["changed"] == ["edits/0.5.9/sglang.srt.worker.py.patch", "pins/0.5.9.yaml"]
    run = cli("pin", "faults", "--base-tree", workshop.base)
    assert (run.code, run.out.splitlines()[-1]) == (0, "0 modules; written: nothing, all is pinned")


def test_a_folder_of_overlays_with_a_broken_one_says_which(cli, tmp_path, workshop):
    manifest = workshop.store.root / "switch" / "overlay.yaml"
    manifest.write_text(manifest.read_text().replace("order", "odrer"))
    run = cli("status", write_tree(tmp_path / "tree"))
    assert run.code == 2
    assert f"{manifest}:" in run.err
    assert "did you mean 'order'?" in run.err
