"""What goes wrong between operator and host: each fault meets a deadline, and the error says what it was."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specctl.exits import ExitCode
from specctl.host.errors import (
    CommandFailed,
    DiskFull,
    FileRefused,
    HostTimeout,
    PermissionRefused,
    ReadOnly,
    SudoNeedsPassword,
    Unreachable,
)
from specctl.host.ssh import SshHost

from .hosts import ssh_to
from .lab import Lab

pytestmark = pytest.mark.lab

BOUND_S = 15.0  # by when every fault must have been told; the timeouts set in these tests are 3 s


@pytest.fixture
def reach(in_lab: Lab) -> Iterator[Callable[..., SshHost]]:
    made: list[SshHost] = []

    def open_host(name: str = "h1", **changes: Any) -> SshHost:
        made.append(SshHost(name, ssh_to(in_lab, name, **changes)))
        return made[-1]

    yield open_host
    for host in made:
        host.close()


@pytest.fixture
def later() -> Iterator[Callable[[float, Callable[[], object]], None]]:
    timers: list[threading.Timer] = []

    def schedule(seconds: float, action: Callable[[], object]) -> None:
        timers.append(threading.Timer(seconds, action))
        timers[-1].start()

    yield schedule
    for timer in timers:
        timer.cancel()
        timer.join()


# -- the link


@pytest.mark.parametrize("fault", ["cut", "black_hole", "power_off"])
def test_a_link_lost_during_a_silent_command_is_noticed(
    in_lab: Lab, reach: Callable[..., SshHost], later: Callable[..., None], fault: str
) -> None:
    host = reach()
    host.run(["true"])
    later(0.5, getattr(in_lab.faults("h1"), fault))
    began = time.monotonic()
    with pytest.raises(Unreachable, match="lost while sleep ran") as caught:
        host.run(["sleep", "60"], timeout_s=60)
    assert time.monotonic() - began < BOUND_S
    assert caught.value.started
    assert caught.value.exit_code is ExitCode.UNREACHABLE
    assert "may still be running" in str(caught.value.hint)


def test_a_frozen_host_meets_the_commands_deadline(
    in_lab: Lab, reach: Callable[..., SshHost], later: Callable[..., None]
) -> None:
    host = reach()
    host.run(["true"])
    later(0.5, in_lab.faults("h1").freeze)
    with pytest.raises(HostTimeout, match="did not end within 3 s"):
        host.run(["sleep", "60"], timeout_s=3)


def test_a_host_that_froze_while_idle_is_unreachable_before_anything_is_sent(
    in_lab: Lab, reach: Callable[..., SshHost]
) -> None:
    host = reach()
    host.run(["true"])
    in_lab.faults("h1").freeze()
    began = time.monotonic()
    with pytest.raises(Unreachable, match="lost before touch was sent") as caught:
        host.run(["touch", "/srv/app/never"])
    assert time.monotonic() - began < BOUND_S
    assert not caught.value.started
    in_lab.faults("h1").thaw()
    assert not host.run(["test", "-e", "/srv/app/never"], check=False).ok


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("cut", "does not answer"),
        ("black_hole", "does not answer"),
        ("refuse", "refuses the connection"),
        ("freeze", "takes the connection but sends no ssh greeting"),
        ("power_off", "does not answer"),
    ],
)
def test_a_host_that_cannot_be_reached_is_told_in_time_and_why(
    in_lab: Lab, reach: Callable[..., SshHost], fault: str, says: str
) -> None:
    getattr(in_lab.faults("h1"), fault)()
    began = time.monotonic()
    with pytest.raises(Unreachable, match=says) as caught:
        reach().run(["true"])
    assert time.monotonic() - began < BOUND_S
    assert caught.value.context["host"] == "h1"
    assert "198.51.100.11:22" in caught.value.context["hop"]


def test_a_killed_session_is_no_result_and_the_command_goes_on_until_its_own_deadline(
    in_lab: Lab, reach: Callable[..., SshHost], later: Callable[..., None]
) -> None:
    host = reach()
    machine = in_lab.machine("h1")
    later(1.0, in_lab.faults("h1").kill_ssh_sessions)
    with pytest.raises(Unreachable, match="lost while sh ran") as caught:
        host.run(
            ["sh", "-c", "rm -f /srv/app/went-on; sleep 2; touch /srv/app/went-on; sleep 61"], timeout_s=4
        )
    assert caught.value.started
    time.sleep(2)
    assert machine.shell("ls /srv/app/went-on").strip() == "/srv/app/went-on"
    machine.shell("for i in $(seq 100); do pgrep -x -f 'sleep 61' || exit 0; sleep 0.1; done; exit 1")


def test_an_idle_connection_that_dropped_is_opened_anew_for_a_probe_but_not_for_a_command(
    in_lab: Lab, reach: Callable[..., SshHost]
) -> None:
    host = reach()
    host.run(["true"])
    assert in_lab.faults("h1").kill_ssh_sessions()
    assert host.script("print(1)", {}) == 1
    assert in_lab.faults("h1").kill_ssh_sessions()
    assert host.read("/etc/hostname") == b"h1\n"
    assert in_lab.faults("h1").kill_ssh_sessions()
    with pytest.raises(Unreachable, match="before touch was sent"):
        host.run(["touch", "/srv/app/x"])
    assert host.run(["hostname"]).text == "h1\n"


def test_a_reboot_under_a_command_is_a_lost_link_and_the_next_call_connects_again(
    in_lab: Lab, reach: Callable[..., SshHost]
) -> None:
    host = reach()
    boot = host.read("/proc/sys/kernel/random/boot_id")
    assert boot is not None
    in_lab.faults("h1").power_off()
    in_lab.machine("h1").power_on()
    with pytest.raises(Unreachable):
        host.run(["hostname"])
    assert host.run(["hostname"]).text == "h1\n"


def test_a_slow_link_is_not_a_lost_one(in_lab: Lab, reach: Callable[..., SshHost], tmp_path: Path) -> None:
    data = bytes(range(256)) * 2000  # 500 KB at 512 kbit/s: about 8 s, longer than the command timeout below
    (tmp_path / "f").write_bytes(data)
    host = reach(command_timeout_s=5.0)
    host.run(["true"])
    in_lab.faults("h1").slow("512kbit")
    assert host.put(tmp_path / "f", "/srv/app/slow", sha256=hashlib.sha256(data).hexdigest())
    in_lab.restore()
    assert host.read("/srv/app/slow") == data


# -- files


def big_file(folder: Path, size: int = 30 << 20) -> tuple[Path, str]:
    """A local file of `size` bytes and its hash."""
    data = bytes(range(256)) * (size // 256)
    (folder / "big").write_bytes(data)
    return folder / "big", hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("fault", ["kill_ssh_sessions", "cut"])
def test_a_killed_upload_leaves_the_old_file_and_a_repeat_completes_it(
    in_lab: Lab, reach: Callable[..., SshHost], tmp_path: Path, fault: str
) -> None:
    host = reach(command_timeout_s=6.0)
    host.write(b"old", "/srv/app/wheel")
    path, sha256 = big_file(tmp_path)
    faults = in_lab.faults("h1")
    strike = threading.Event()

    def halfway(sent: int) -> None:
        if sent > 5 << 20 and not strike.is_set():
            strike.set()
            getattr(faults, fault)()

    with pytest.raises(Unreachable, match="lost while"):
        host.put(path, "/srv/app/wheel", sha256=sha256, progress=halfway)
    assert in_lab.machine("h1").shell("cat /srv/app/wheel") == "old"
    in_lab.restore()
    assert host.put(path, "/srv/app/wheel", sha256=sha256) is True
    left = "for i in $(seq 100); do ls -A /srv/app | grep receiving || exit 0; sleep 0.1; done; exit 1"
    in_lab.machine("h1").shell(left)


def test_an_upload_into_a_frozen_host_meets_the_deadline(
    in_lab: Lab, reach: Callable[..., SshHost], tmp_path: Path
) -> None:
    host = reach(command_timeout_s=3.0)
    path, sha256 = big_file(tmp_path)
    frozen = threading.Event()

    def halfway(sent: int) -> None:
        if sent > 5 << 20 and not frozen.is_set():
            frozen.set()
            in_lab.faults("h1").freeze()

    began = time.monotonic()
    with pytest.raises((HostTimeout, Unreachable)):
        host.put(path, "/srv/app/frozen", sha256=sha256, progress=halfway)
    assert time.monotonic() - began < BOUND_S


def test_a_full_disk_and_a_read_only_folder_are_told_apart(
    in_lab: Lab, reach: Callable[..., SshHost], tmp_path: Path
) -> None:
    host = reach("h3")
    path, sha256 = big_file(tmp_path)
    host.run(["mkdir", "-p", "/srv/app/locked"])
    in_lab.faults("h3").fill("/", leave=1 << 20)
    with pytest.raises(DiskFull, match="no space left on /") as full:
        host.put(path, "/srv/app/big", sha256=sha256)
    assert full.value.context["file system"].startswith("/: ")
    assert "receiving" not in host.run(["ls", "-A", "/srv/app"]).text
    in_lab.restore()
    in_lab.faults("h3").read_only("/srv/app/locked")
    with pytest.raises(ReadOnly, match="/srv/app/locked is mounted read-only"):
        host.write(b"x", "/srv/app/locked/f")


def test_a_small_file_system_below_the_target_is_the_one_that_is_named(
    in_lab: Lab, reach: Callable[..., SshHost], tmp_path: Path
) -> None:
    path, sha256 = big_file(tmp_path)
    in_lab.faults("h3").small("/mnt", "1m")
    with pytest.raises(DiskFull, match="no space left on /mnt"):
        reach("h3").put(path, "/mnt/big", sha256=sha256)


def test_a_folder_of_another_user_is_a_matter_of_permission(reach: Callable[..., SshHost]) -> None:
    host = reach()
    with pytest.raises(PermissionRefused, match="permission denied") as caught:
        host.write(b"x", "/etc/specctl-test")
    assert "sudo: true" in str(caught.value.hint)
    with pytest.raises(FileRefused):
        host.read("/etc/shadow")


# -- sudo


def test_sudo_writes_reads_and_runs_as_root(reach: Callable[..., SshHost]) -> None:
    host = reach()
    assert host.run(["id", "-u"], sudo=True).text == "0\n"
    host.write(b"secret", "/etc/specctl-test", mode=0o600, sudo=True)
    assert host.run(["stat", "-c", "%a %U", "/etc/specctl-test"]).text == "600 root\n"
    assert host.read("/etc/specctl-test", sudo=True) == b"secret"
    assert host.script("import os\nprint(os.geteuid())", {}, sudo=True) == 0
    host.run(["rm", "/etc/specctl-test"], sudo=True)


def test_a_command_that_fails_under_sudo_is_not_taken_for_a_password(reach: Callable[..., SshHost]) -> None:
    with pytest.raises(CommandFailed, match="false ended with exit code 1"):
        reach().run(["false"], sudo=True)


@pytest.mark.parametrize("verb", ["run", "unchecked", "stream", "write", "read", "script"])
def test_sudo_that_asks_for_a_password_is_said_on_every_path(
    reach: Callable[..., SshHost], verb: str
) -> None:
    host = reach(user="ops")
    calls: dict[str, Callable[[], object]] = {
        "run": lambda: host.run(["id"], sudo=True),
        "unchecked": lambda: host.run(["id"], sudo=True, check=False),
        "stream": lambda: host.stream(["id"], lambda line: True, sudo=True),
        "write": lambda: host.write(b"x", "/etc/f", sudo=True),
        "read": lambda: host.read("/etc/shadow", sudo=True),
        "script": lambda: host.script("print(1)", {}, sudo=True),
    }
    with pytest.raises(SudoNeedsPassword) as caught:
        calls[verb]()
    assert "NOPASSWD" in str(caught.value.hint)
    assert host.run(["id", "-un"]).text == "ops\n"


def test_root_needs_no_sudo(in_lab: Lab, reach: Callable[..., SshHost]) -> None:
    in_lab.machine("h2").shell("mv /usr/bin/sudo /usr/bin/sudo.away")
    try:
        assert reach("h2", user="root").run(["id", "-u"], sudo=True).text == "0\n"
        with pytest.raises(SudoNeedsPassword):
            reach("h2").run(["id", "-u"], sudo=True)
    finally:
        in_lab.machine("h2").shell("mv /usr/bin/sudo.away /usr/bin/sudo")


def test_what_a_login_shell_prints_does_not_spoil_an_answer(
    in_lab: Lab, reach: Callable[..., SshHost]
) -> None:
    machine = in_lab.machine("h2")
    machine.run("sed", "-i", """1i echo '{"welcome": 1} to h2'""", "/home/deploy/.bashrc")
    try:
        host = reach("h2")
        assert host.run(["true"]).stdout == b'{"welcome": 1} to h2\n'
        assert host.script("print('[3]')", {}) == [3]
        assert host.read("/etc/hostname") == b"h2\n"
    finally:
        machine.shell("sed -i 1d /home/deploy/.bashrc")


def test_a_hundred_megabytes_of_output_stay_within_bounds(reach: Callable[..., SshHost]) -> None:
    result = reach().run(["sh", "-c", "head -c 100000000 /dev/zero; echo; echo last"], timeout_s=120)
    assert len(result.stdout) < 9 << 20
    assert result.stdout.endswith(b"last\n")
    assert result.dropped > 90_000_000
