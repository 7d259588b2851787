"""The lab itself: a test that trusts its hosts must be able to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from . import image
from .lab import Lab, sweep
from .machine import Bind
from .shell import run

pytestmark = pytest.mark.lab


def ssh(lab: Lab, host: str, line: str, *, user: str = "deploy") -> subprocess.CompletedProcess[str]:
    options = ["-F", str(lab.ssh_config), "-l", user, "-o", "ConnectTimeout=3"]
    return subprocess.run(
        ["ssh", *options, host, line], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("host", ["h1", "h2", "h3"])
def test_each_host_runs_systemd_and_answers_to_ssh(in_lab: Lab, host: str) -> None:
    assert ssh(in_lab, host, "hostname; systemctl is-system-running").stdout == f"{host}\nrunning\n"


def test_no_packet_can_leave(in_lab: Lab) -> None:
    routes = run("ip", "route").splitlines() + in_lab.machine("h1").run("ip", "route").splitlines()
    assert [line.split()[0] for line in routes] == ["198.51.100.0/24"] * 2


def test_deploy_has_a_user_manager_and_sudo_and_ops_has_to_type_a_password(in_lab: Lab) -> None:
    assert ssh(in_lab, "h1", "systemctl --user is-system-running; sudo -n id -u").stdout == "running\n0\n"
    assert ssh(in_lab, "h1", "sudo -n id", user="ops").returncode == 1


@pytest.mark.parametrize("fault", ["cut", "black_hole", "refuse", "freeze", "power_off"])
def test_a_fault_makes_a_host_unreachable_and_restore_brings_it_back(in_lab: Lab, fault: str) -> None:
    getattr(in_lab.faults("h2"), fault)()
    assert ssh(in_lab, "h2", "true").returncode == 255
    assert ssh(in_lab, "h1", "true").returncode == 0
    in_lab.restore()
    assert ssh(in_lab, "h2", "true").returncode == 0


def test_a_full_disk_a_small_tmp_and_a_shifted_clock_are_gone_after_restore(in_lab: Lab) -> None:
    faults = in_lab.faults("h3")
    faults.skew("-1d")
    faults.small("/tmp", "64k")
    faults.read_only("/srv/app")
    faults.fill("/")
    line = "echo x > /var/tmp/x; stat -fc %b /tmp; echo x > /srv/app/x; date +%s"
    broken = ssh(in_lab, "h3", line)
    assert "No space left" in broken.stderr
    assert "Read-only file system" in broken.stderr
    assert broken.stdout.splitlines()[0] == "16"
    in_lab.restore()
    mended = ssh(in_lab, "h3", line)
    assert mended.stderr == ""
    assert int(mended.stdout.split()[-1]) - int(broken.stdout.split()[-1]) > 80_000


def test_a_reboot_keeps_the_disk(in_lab: Lab) -> None:
    machine = in_lab.machine("h3")
    machine.shell("echo kept > /srv/app/kept")
    before = machine.shell("cat /proc/sys/kernel/random/boot_id; stat -c %Y /proc/1")
    machine.reboot()
    assert machine.shell("cat /srv/app/kept") == "kept\n"
    assert machine.shell("cat /proc/sys/kernel/random/boot_id; stat -c %Y /proc/1") != before


def test_a_host_can_be_added_with_a_folder_bound_read_only(in_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "wheel").write_text("bytes")
    machine = in_lab.add(disk="2G", binds=[Bind(str(tmp_path), "/wheels")])
    try:
        assert ssh(in_lab, machine.name, "sudo cat /wheels/wheel").stdout == "bytes"
        assert "Read-only" in ssh(in_lab, machine.name, "sudo touch /wheels/new").stderr
    finally:
        in_lab.remove(machine)


def test_two_labs_live_side_by_side(in_lab: Lab) -> None:
    other = Lab("second")
    try:
        other.up(1)
        with other.inside():
            assert ssh(other, "h1", "hostname").stdout == "h1\n"
        assert other.machine("h1").host_key != in_lab.machine("h1").host_key
        assert ssh(in_lab, "h1", "hostname").stdout == "h1\n"
    finally:
        other.down()
    assert "second-" not in run("ip", "netns", "list")


def test_a_lab_whose_process_was_killed_is_swept_by_the_next(in_lab: Lab) -> None:
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from lab.lab import Lab\n"
        "Lab('killed').up(1, owner=os.getpid())\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(Path(__file__).parents[1])], timeout=60)
    assert (image.folder() / "run-killed").exists()
    with image.alone("labs"):
        sweep()
    assert not (image.folder() / "run-killed").exists()
    assert "killed-" not in run("ip", "netns", "list")


@pytest.mark.parametrize(
    ("uid", "platform", "tools", "reason"),
    [
        (1000, "linux", True, "the host lab needs root"),
        (0, "darwin", True, "the host lab needs Linux"),
        (0, "linux", False, "there is no apt-get to install them"),
    ],
)
def test_where_no_lab_can_run_one_line_says_why(
    monkeypatch: pytest.MonkeyPatch, uid: int, platform: str, tools: bool, reason: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(sys, "platform", platform)
    if not tools:
        monkeypatch.setattr(shutil, "which", lambda name: None)
    said = image.why_not()
    assert said is not None
    assert reason in said
    assert "\n" not in said
