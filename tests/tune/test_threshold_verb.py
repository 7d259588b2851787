"""`specctl threshold get|set` as an operator types it, on a stand-in server under supervisor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from standin.supervised import Site, healthy, until

from tune.commands import document, specctl, started

pytest.importorskip("supervisor", reason="the test extra's supervisor is not installed")


def one(file: str) -> dict[str, Any]:
    found: dict[str, Any] = document(specctl("threshold", "get", "main", "-i", file, "--json"))["servers"][0]
    return found


def test_a_change_is_live_kept_over_a_restart_noted_and_seen_to_differ_from_the_inventory(
    site: Site, tmp_path: Path
) -> None:
    file = started(site, tmp_path)
    before = specctl("threshold", "get", "-i", file)
    assert before.returncode == 0, before.stdout + before.stderr
    pid = site.service.state().main_pid
    done = specctl("threshold", "set", "main", "9", "--resume", "7", "--dwell", "3", "-i", file)
    assert done.returncode == 0, done.stderr
    assert "threshold 9, resume 7, dwell 3, live on all ranks and for the next start" in done.stdout
    assert "--save" in done.stderr
    assert site.service.state().main_pid == pid, "a live change restarted the server"
    seen = one(file)
    want = {"threshold": 9, "resume": 7, "resume_steps": 3}
    assert (seen["live"], seen["after_restart"]) == (want, want)
    assert seen["inventory"]["threshold"] == 4
    assert "threshold 4, resume 2, dwell 4 -> threshold 9, resume 7, dwell 3" in seen["changed"]
    assert any("the next deploy" in note for note in seen["notes"])
    assert specctl("threshold", "get", "-i", file).returncode == 3
    records = [json.loads(x) for x in (site.root / "journal.jsonl").read_text().splitlines()]
    assert records[-1]["event"] == "threshold"
    assert records[-1]["by"].count("@") == 1
    assert "threshold 9" in specctl("history", "-i", file).stdout
    site.service.restart(10, port=site.server.port)
    until(lambda: healthy(site.server.port))
    assert one(file)["live"] == want


def test_save_shows_the_difference_and_writes_the_inventory(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    done = specctl("threshold", "set", "main", "9", "--resume", "7", "--save", "-i", file)
    assert done.returncode == 0, done.stderr
    assert "+          disable: 9 # found by hand" in done.stderr
    text = Path(file).read_text()
    assert "disable: 9 # found by hand\n          resume: 7\n" in text
    assert "# the only one" in text
    assert specctl("threshold", "get", "-i", file).returncode == 0
    verified = document(specctl("verify", "-i", file, "--json"))["servers"][0]["evidence"]
    marker = next(e for e in verified if e["kind"] == "marker")
    assert (marker["verdict"], marker["code"]) == ("pass", "marker-changed-live"), marker


def test_verify_still_fails_when_the_server_has_neither_in_its_marker_nor_live_what_is_expected(
    site: Site, tmp_path: Path
) -> None:
    file = started(site, tmp_path)
    Path(file).write_text(Path(file).read_text().replace("disable: 4", "disable: 9"))
    verified = document(specctl("verify", "-i", file, "--json"))["servers"][0]["evidence"]
    assert next(e for e in verified if e["kind"] == "marker")["code"] == "marker-wrong-values"


def test_zero_is_the_kill_switch(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    assert specctl("threshold", "set", "main", "0", "--resume", "0", "-i", file).returncode == 0
    seen = one(file)
    assert seen["live"]["threshold"] == 0
    assert any("switched off altogether" in note for note in seen["notes"])


def test_what_the_server_cannot_do_is_refused_with_the_reason_and_nothing_changes(
    site: Site, tmp_path: Path
) -> None:
    file = started(site, tmp_path)
    dead = specctl("threshold", "set", "main", "48", "-i", file)
    assert dead.returncode == 2
    assert "at most 48 requests at once" in dead.stderr
    above = specctl("threshold", "set", "main", "4", "--resume", "5", "-i", file)
    assert above.returncode == 2
    # the stand-in keeps its resume of 2, which is above 1
    refused = specctl("threshold", "set", "main", "1", "-i", file)
    assert refused.returncode == 1
    assert "refuses" in refused.stderr
    assert one(file)["live"] == one(file)["after_restart"] | {"resume": 2, "resume_steps": 4}
    assert "threshold-refused" in specctl("history", "-i", file).stdout


def test_a_server_without_a_switch_says_so(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path, no_state="1")
    done = specctl("threshold", "set", "main", "3", "-i", file)
    assert done.returncode == 1
    assert "has no switch" in done.stderr
    assert specctl("threshold", "get", "-i", file).returncode == 1


def test_a_unit_that_specctl_did_not_write_is_left_alone_and_that_is_said(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    launcher = site.root / "servers/main/launch.sh"
    launcher.write_text(launcher.read_text() + "# edited by hand\n")
    text = launcher.read_text()
    done = specctl("threshold", "set", "main", "9", "-i", file)
    assert done.returncode == 1
    assert "a restart undoes it" in done.stdout
    assert launcher.read_text() == text
    assert one(file)["live"]["threshold"] == 9


REFUSALS = [
    ({"no_live": "1"}, "it has no /set_internal_state"),
    ({"live_changes": "0"}, "stand-in takes no more changes, on purpose"),
]


@pytest.mark.parametrize(("knobs", "reason"), REFUSALS)
def test_a_server_that_takes_no_live_change_says_why_and_gets_it_by_a_restart_when_asked(
    site: Site, tmp_path: Path, knobs: dict[str, str], reason: str
) -> None:
    file = started(site, tmp_path, **knobs)
    before, pid = one(file), site.service.state().main_pid
    no = specctl("threshold", "set", "main", "9", "-i", file)
    assert no.returncode == 1
    assert reason in no.stderr
    assert "--restart starts it anew" in no.stderr
    assert (one(file)["live"], site.service.state().main_pid) == (before["live"], pid)
    done = specctl("threshold", "set", "main", "9", "--resume", "6", "--restart", "-i", file)
    assert done.returncode == 0, done.stderr
    assert "threshold 4, resume 2, dwell 4 -> threshold 9, resume 6, dwell 4, by a restart" in done.stdout
    assert site.service.state().main_pid != pid
    want = {"threshold": 9, "resume": 6, "resume_steps": 4}
    assert (one(file)["live"], one(file)["after_restart"]) == (want, want)
    assert "threshold 9, resume 6" in specctl("history", "-i", file).stdout
    assert not list((site.root / "lock").glob("*")), "the host stayed locked"
    assert not (site.root / "deadman/armed.json").exists(), "the host would undo it later"


def test_a_live_change_restarts_nothing_although_a_restart_was_allowed(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    pid = site.service.state().main_pid
    done = specctl("threshold", "set", "main", "9", "--restart", "-i", file)
    assert done.returncode == 0, done.stderr
    assert "live on all ranks" in done.stdout
    assert site.service.state().main_pid == pid


def test_a_restart_that_fails_brings_the_old_thresholds_back(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path, no_live="1", die_with_threshold="9")
    before = one(file)
    done = specctl("threshold", "set", "main", "9", "--restart", "-i", file)
    assert done.returncode == 1
    assert "stand-in dies at start on purpose" in done.stderr
    after = one(file)
    assert (after["live"], after["after_restart"]) == (before["live"], before["after_restart"])
    assert "not-ready" in specctl("history", "-i", file).stdout
    assert not (site.root / "deadman/armed.json").exists()


def test_a_server_without_a_switch_in_it_is_not_left_restarted_for_nothing(
    site: Site, tmp_path: Path
) -> None:
    file = started(site, tmp_path, no_state="1")
    unit = [Path(f.path).read_bytes() for f in site.service.files(site.unit(no_state="1"))]
    done = specctl("threshold", "set", "main", "9", "--restart", "-i", file)
    assert done.returncode == 1
    assert "does not show it" in done.stderr
    assert [Path(f.path).read_bytes() for f in site.service.files(site.unit(no_state="1"))] == unit
    assert healthy(site.server.port)


def test_nothing_is_changed_on_a_host_that_is_about_to_undo_something(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    before = one(file)["live"]
    armed = site.root / "deadman/armed.json"
    armed.parent.mkdir(exist_ok=True)
    armed.write_text(json.dumps({"run": "lost", "pid": 0}))
    try:
        done = specctl("threshold", "set", "main", "9", "-i", file)
    finally:
        armed.unlink()
    assert done.returncode == 1
    assert "about to put back what an interrupted run has left" in done.stderr
    assert one(file)["live"] == before
    assert not list((site.root / "lock").glob("*")), "the host stayed locked"
