"""The parts of the demo that decide what it says; the demo itself is run by `make demo`."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from specctl.config.inventory import load_inventory
from specctl.config.model import EnvironmentKind, Supervisor
from specctl.overlay.store import OverlayStore

from . import burst, site
from .broken import FORGOTTEN, OVERLAY, forget_worker
from .burst import Sample
from .cast import fields_of
from .promises import Broken, Promise, Promises
from .screen import Screen, folded
from .sshd import SshHost, find_sshd, locked, render_config, ssh_host
from .teardown import end_host, pids_below

ON, OFF = "on", "off"


def samples(*states: str) -> list[Sample]:
    return [Sample(i / 10, state, 1 if state == ON else 7, 0) for i, state in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((ON, OFF, ON), True),
        ((ON, ON, OFF, OFF, ON), True),
        ((ON, OFF), False),  # never came back
        ((OFF, ON), False),  # was off before the burst
        ((ON, ON), False),  # never went off
        ((), False),
    ],
)
def test_only_off_under_the_burst_and_on_after_it_counts_as_switching(
    states: tuple[str, ...], expected: bool
) -> None:
    assert burst.went_off_and_on(samples(*states)) is expected


def test_the_timeline_has_a_line_for_each_stretch_with_its_largest_batch() -> None:
    lines = burst.timeline(samples(ON, ON, OFF, ON))
    assert [line.split("speculation ")[1].split()[0] for line in lines] == [ON, OFF, ON]
    assert "0.2 s to   0.2 s" in lines[1]
    assert lines[1].endswith("largest batch seen 7")
    assert burst.timeline([]) == []


def test_a_text_that_is_empty_or_was_not_asked_elsewhere_is_not_identical() -> None:
    reference = {"a": [1, 2], "b": [3], "c": []}
    assert burst.identical({"a": [1, 2], "b": [4], "c": [], "d": [5]}, reference) == 1


def test_the_burst_is_above_the_threshold_and_what_surrounds_it_is_not() -> None:
    before, many, after = burst.requests(3)
    assert max(len(before), len(after)) <= 2
    assert len(many) > 3
    assert len({r.rid for r in [*before, *many, *after]}) == len(before) + len(many) + len(after)


def test_the_first_broken_promise_ends_the_demo_and_is_told_whole() -> None:
    promises = Promises()
    promises.check("one", True, "it", "there")
    with pytest.raises(Broken, match="promised: two\nseen: nothing\nwhere: here"):
        promises.check("two", False, "nothing", "here")
    assert [p.kept for p in promises.kept] == [True, False]


def test_the_closing_table_keeps_every_word_and_tells_broken_from_kept() -> None:
    out = io.StringIO()
    screen = Screen(Path(), {}, out)
    screen.promises([Promise("a", True, "seen " * 40, "w"), Promise("b", False, "x", "log")])
    text = out.getvalue()
    assert text.count("seen ") >= 40
    assert [line[:4].strip() for line in text.splitlines() if line[:4].strip()] == ["yes", "NO"]
    assert max(map(len, text.splitlines())) <= screen.width
    assert "\033" not in text  # a pipe


def test_a_command_is_shown_as_typed_with_its_output_and_its_exit_code(tmp_path: Path) -> None:
    out = io.StringIO()
    done = Screen(tmp_path, {"PATH": "", "PYTHONPATH": str(Path(__file__).parents[2])}, out).specctl(
        "build", "--no-such-option", keep=1
    )
    assert done.code == 2
    assert out.getvalue().startswith("$ specctl build --no-such-option\n    ")
    assert "more lines" in out.getvalue()
    assert "No such option" in done.text


def test_long_lines_are_wrapped_whole_and_a_servers_log_is_cut() -> None:
    words = "      evidence: " + "seen " * 60
    assert " ".join(" ".join(folded(words, 80)).split()) == " ".join(words.split())
    (cut,) = folded("        [2026-11-29 17:26:15] " + "x" * 200, 80)
    assert len(cut) == 80
    assert folded("short", 80) == ["short"]


def test_a_marker_gives_its_fields_and_another_line_gives_none() -> None:
    line = "[2026-11-29 15:00:00] Dynamic speculation disable enabled: worker=EAGLEWorkerV2 threshold=3"
    assert fields_of(line) == {"worker": "EAGLEWorkerV2", "threshold": "3"}
    assert fields_of("no marker") == {}


def test_the_inventory_is_one_that_specctl_reads_without_a_warning(tmp_path: Path) -> None:
    ssh = SshHost(2222, "ada", tmp_path / "key", tmp_path / "known", 1)
    (tmp_path / "key").touch()
    path = tmp_path / "hosts.yaml"
    site.write(path, site.inventory(tmp_path, ssh, 30000, threshold=5))
    found = load_inventory(path, environ={})
    (host,) = found.hosts
    assert not found.warnings
    assert (host.supervisor, host.environment) == (Supervisor.SUPERVISOR, EnvironmentKind.ADOPTED)
    assert host.ssh.port == 2222
    threshold = host.servers[0].threshold
    assert threshold is not None
    assert threshold.disable == 5


def test_the_broken_overlay_lacks_exactly_one_workers_hooks(tmp_path: Path) -> None:
    store = OverlayStore.discover()
    folder = forget_worker(store.root, tmp_path / "overlays", "0.5.9")
    before = yaml.safe_load((store.root / OVERLAY / "overlay.yaml").read_text())["edits"]
    after = yaml.safe_load((folder / OVERLAY / "overlay.yaml").read_text())["edits"]
    assert set(before) - set(after) == {FORGOTTEN}
    patches = {p.name for p in (folder / OVERLAY / "edits/0.5.9").iterdir()}
    assert f"{FORGOTTEN.replace('/', '.')}.patch" not in patches
    assert len(patches) == len(after)


@pytest.mark.parametrize(
    ("shadow", "expected"),
    [("root:*:1::::::", False), ("root:!:1::::::", True), ("ada:!:1:::\nroot:$y$x:1:::", False), ("", False)],
)
def test_a_locked_account_is_told_from_one_without_a_password(shadow: str, expected: bool) -> None:
    assert locked(shadow, "root") is expected


def test_sshd_listens_on_loopback_only_and_takes_keys_only(tmp_path: Path) -> None:
    lines = render_config(tmp_path, 2222, path="/bin", pam=False).splitlines()
    assert "ListenAddress 127.0.0.1" in lines
    assert "AuthenticationMethods publickey" in lines
    assert "UsePAM no" in lines


@pytest.mark.skipif(find_sshd() is None, reason="no OpenSSH server here: install openssh-server")
def test_a_real_login_works_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    with ssh_host(tmp_path / "ssh") as ssh:
        argv = ["ssh", "-F", "none", "-i", str(ssh.key), "-p", str(ssh.port), "-o", "BatchMode=yes"]
        argv += ["-o", f"UserKnownHostsFile={ssh.known_hosts}", "-o", "StrictHostKeyChecking=yes"]
        said = subprocess.run([*argv, f"{ssh.user}@127.0.0.1", "echo hello"], capture_output=True, text=True)
        assert said.stdout == "hello\n", said.stderr
    assert not Path(f"/proc/{ssh.pid}").exists()


def test_what_runs_below_the_root_is_ended_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    wait = "import time; time.sleep(60)"
    below = subprocess.Popen([sys.executable, "-c", wait, f"{root}/servers/x"])
    beside = subprocess.Popen([sys.executable, "-c", wait, f"{tmp_path}/root-2/x"])
    try:
        assert below.pid in pids_below(root)
        end_host(root)
        assert below.wait(10) != 0
        assert beside.poll() is None
    finally:
        for process in (below, beside):
            process.kill()
            process.wait()
