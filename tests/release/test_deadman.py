"""The host's own undo, as a real process on this machine; supervisor commands are small shell lines."""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specctl.host.local import LocalHost
from specctl.release.actions.deadman import watcher_source
from specctl.release.clock import Operator
from specctl.release.lock import HostLock
from specctl.release.remote import Remote
from specctl.release.supervisors import as_user, supervisor_commands, systemd_commands
from specctl.service.account import Account
from specctl.service.supervisor_conf import SupervisorPaths


class Site:
    """A root with release `old` and a server that was just pointed at `new`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.remote = Remote(LocalHost("here"), str(root), "r1")
        self.lock = HostLock(self.remote, Operator.here(), "deploy new", "t")
        for name in ("old", "new"):
            (root / "releases" / name).mkdir(parents=True)
        self.server = root / "servers" / "main"
        self.server.mkdir(parents=True)
        self.point_at("new")
        (root / "unit").write_text("new unit")
        (self.server / "secrets.env").write_text("new secret")
        (self.server / "secrets.json").write_text('{"digest": "d2"}')
        kept = {str(self.server / "secrets.env"): "old secret"}
        (self.server / "secrets-d1.json").write_text(json.dumps(kept))

    def point_at(self, name: str) -> None:
        link = self.server / "current"
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../releases/{name}")

    @property
    def current(self) -> str | None:
        link = self.server / "current"
        return link.readlink().name if link.is_symlink() else None

    def say(self, text: str) -> list[str]:
        return ["sh", "-c", f"echo {text} >> {self.root}/said"]

    def orders(self, **changes: Any) -> dict[str, Any]:
        server = {
            "name": "main",
            "previous": "old",
            "secrets": "d1",
            "stop": [self.say("stop")],
            "start": [self.say("start")],
            "check": ["true"],
            "files": [
                {
                    "path": str(self.root / "unit"),
                    "mode": 0o644,
                    "data": base64.b64encode(b"old unit").decode(),
                }
            ],
        }
        return {
            "release": "new",
            "journal": str(self.root / "releases" / "new" / "journal.jsonl"),
            "grace_s": 0.3,
            "poll_s": 0.1,
            "stop_s": 20.0,
            "reload": [self.say("reload")],
            "servers": [{**server, **changes}],
        }

    def arm(self, **changes: Any) -> Any:
        return self.arm_with(watcher_source("r1"), **changes)

    def arm_with(self, source: str, **changes: Any) -> Any:
        return self.remote.program(
            "deadman",
            op="arm",
            run="r1",
            orders=self.orders(**changes),
            launch=[],
            boot={str(self.boot): "start @COMMAND@\n", str(self.boot) + ".link": {"link": self.boot.name}},
            source=source,
        )

    @property
    def boot(self) -> Path:
        """What a supervisor would read when the host starts."""
        return self.root / "boot" / "undo"

    def fired(self, seconds: float = 30.0) -> dict[str, Any] | None:
        path = self.root / "deadman" / "fired.json"
        end = time.monotonic() + seconds
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.05)
        return json.loads(path.read_text()) if path.exists() else None

    @property
    def said(self) -> list[str]:
        path = self.root / "said"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    made = Site(tmp_path / "root")
    yield made
    made.remote.program("deadman", op="disarm", run=None)


def test_a_silent_operator_is_undone_release_unit_and_secrets(site: Site) -> None:
    site.lock.acquire(lease_s=0.2)
    site.arm()
    found = site.fired()
    assert found is not None
    assert found["whole"] is True
    assert site.current == "old"
    assert (site.root / "unit").read_text() == "old unit"
    assert (site.server / "secrets.env").read_text() == "old secret"
    assert site.said == ["stop", "reload", "start"]
    history = (site.root / "history.jsonl").read_text()
    assert "undo by the host" in history
    assert "rolled back" in history


def test_an_operator_who_keeps_its_word_is_left_alone_and_disarms(site: Site) -> None:
    site.lock.acquire(lease_s=60)
    site.arm()
    time.sleep(1.0)
    site.lock.renew("gate", 60)
    assert site.remote.program("deadman", op="disarm", run="r1") == {"disarmed": True, "fired": False}
    time.sleep(0.5)
    assert site.said == []
    assert site.current == "new"


def test_a_lock_that_was_broken_counts_as_a_lost_operator(site: Site) -> None:
    site.lock.acquire(lease_s=60)
    site.arm()
    site.lock.release()
    assert site.fired() is not None
    assert site.current == "old"


def test_without_an_earlier_release_the_server_is_stopped_and_points_nowhere(site: Site) -> None:
    site.lock.acquire(lease_s=0.1)
    files = [{"path": str(site.root / "unit"), "mode": 0o644, "data": None}]
    site.arm(previous=None, secrets=None, start=[], files=files)
    found = site.fired()
    assert found is not None
    assert "stopped, there was no earlier release" in found["outcome"]
    assert site.current is None
    assert not (site.root / "unit").exists()
    assert "start" not in site.said


def test_a_server_that_had_passed_is_not_undone(site: Site) -> None:
    (site.server / "good.json").write_text(json.dumps({"goods": [{"release": "new", "run": "r1"}]}))
    site.lock.acquire(lease_s=0.1)
    site.arm()
    left = site.root / "deadman" / "disarmed.json"
    end = time.monotonic() + 30
    while not left.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert left.exists()  # and not `fired`: a run that had passed is no run that was undone
    time.sleep(0.3)
    assert site.current == "new"
    assert site.said == []
    assert list(site.boot.parent.iterdir()) == []


def test_an_old_release_that_does_not_start_is_told(site: Site) -> None:
    site.lock.acquire(lease_s=0.1)
    site.arm_with(watcher_source("r1", "runs = lambda check, tries=1: False\n"))
    found = site.fired()
    assert found is not None
    assert found["whole"] is False
    assert "could not be started" in found["outcome"]


def test_arming_twice_starts_one_watcher(site: Site) -> None:
    site.lock.acquire(lease_s=60)
    first = site.arm()
    assert site.arm() == {"armed": True}
    armed = json.loads((site.root / "deadman" / "armed.json").read_text())
    assert armed["pid"] == first["pid"]


def test_of_the_host_and_the_operator_only_one_acts(site: Site) -> None:
    site.lock.acquire(lease_s=0.1)
    site.arm()
    answers = []
    for _ in range(40):
        answers.append(site.remote.program("deadman", op="disarm", run="r1"))
        if answers[-1]["fired"] or answers[-1]["disarmed"]:
            break
        time.sleep(0.02)
    time.sleep(1.0)
    if answers[-1]["disarmed"]:
        assert site.said == []
    else:
        assert site.fired() is not None
        assert site.said == ["stop", "reload", "start"]


def test_a_watcher_that_cannot_be_launched_stops_the_deploy_before_the_switch(site: Site) -> None:
    site.lock.acquire()
    with pytest.raises(Exception, match="did not start"):
        site.remote.program(
            "deadman", op="arm", run="r1", orders=site.orders(), launch=["false"], source="pass"
        )
    assert not (site.root / "deadman" / "armed.json").exists()


def test_the_watcher_runs_under_what_outlives_a_logout() -> None:
    system = systemd_commands((), user=False)
    assert system.launch[0] == "systemd-run"
    assert "--user" not in system.launch
    account = Account(1000, "deploy", "/home/deploy", True)
    own = systemd_commands(as_user(account, sudo=False), user=True)
    assert own.launch[:4] == ("env", "XDG_RUNTIME_DIR=/run/user/1000", "systemd-run", "--user")
    assert "--user" in own.start("specctl-main.service")[0]
    rooted = systemd_commands(as_user(account, sudo=True), user=True)
    assert rooted.launch[0] == "systemd-run"  # root's watcher, the user's unit
    assert rooted.start("specctl-main.service")[0][:3] == ("runuser", "-u", "deploy")
    plain = supervisor_commands(SupervisorPaths("/opt/specctl"))
    assert plain.launch == ()
    assert plain.stop("specctl-main")[0][-2:] == ("stop", "specctl-main")


def test_an_undo_that_was_cut_off_is_told_and_not_waited_for(site: Site) -> None:
    folder = site.root / "deadman"
    folder.mkdir()
    (folder / "firing.json").write_text(json.dumps({**site.orders(), "run": "r1", "pid": 0}))
    answer = site.remote.program("deadman", op="disarm", run="r1")
    assert answer["fired"] is True
    assert answer["whole"] is False
    assert "cut off" in answer["outcome"]
    assert not (folder / "firing.json").exists()


def restart(site: Site) -> None:
    """The host restarts: its watcher is gone, and what was promised belongs to another boot."""
    path = site.root / "deadman" / "armed.json"
    orders = json.loads(path.read_text())
    os.kill(orders["pid"], signal.SIGKILL)
    path.write_text(json.dumps({**orders, "armed_boot": "before", "pid_boot": "before"}))


def forget_lease(site: Site) -> None:
    """What was promised before a restart counts for nothing after it."""
    path = site.root / "lock" / "lease.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "before"}))


def at_boot(site: Site) -> None:
    """What the supervisor does with the boot file."""
    command = shlex.split(site.boot.read_text())[1:]
    subprocess.run(command, check=True, timeout=60)


def test_a_host_that_restarts_before_the_gate_goes_back_when_it_starts(site: Site) -> None:
    site.lock.acquire(lease_s=600)
    site.arm()
    restart(site)
    forget_lease(site)
    at_boot(site)
    assert site.current == "old"
    assert site.said == ["stop", "reload", "start"]
    found = site.fired(1.0)
    assert found is not None
    assert found["whole"] is True


def test_an_undo_that_a_restart_cut_off_is_done_again_when_the_host_starts(site: Site) -> None:
    site.lock.acquire(lease_s=600)
    site.arm()
    restart(site)
    folder = site.root / "deadman"
    (folder / "armed.json").rename(folder / "firing.json")
    at_boot(site)
    assert site.current == "old"
    assert not (folder / "firing.json").exists()


@pytest.mark.parametrize("ended", ["disarmed", "fired"])
def test_a_start_of_the_host_undoes_nothing_once_the_run_has_ended(site: Site, ended: str) -> None:
    site.lock.acquire(lease_s=600 if ended == "disarmed" else 0.1)
    site.arm()
    assert Path(f"{site.boot}.link").is_symlink()
    boot = site.boot.read_text()
    if ended == "disarmed":
        site.remote.program("deadman", op="disarm", run="r1")
    else:
        assert site.fired() is not None
        time.sleep(0.3)
    assert list(site.boot.parent.iterdir()) == []
    site.boot.write_text(boot)  # one that could not be removed
    site.point_at("new")
    at_boot(site)
    assert site.current == "new"


def test_a_second_watcher_of_the_same_boot_leaves_the_first_one_alone(site: Site) -> None:
    site.lock.acquire(lease_s=600)
    first = site.arm()
    at_boot(site)
    assert site.said == []
    assert json.loads((site.root / "deadman" / "armed.json").read_text())["pid"] == first["pid"]


def test_an_undo_that_fails_is_tried_until_it_works(site: Site) -> None:
    site.lock.acquire(lease_s=0.1)
    folder = site.root / "units"
    files = [{"path": str(folder / "unit"), "mode": 0o644, "data": base64.b64encode(b"old").decode()}]
    site.arm_with(watcher_source("r1", "PAUSE_S = 0.1\n"), files=files)
    assert site.fired(1.0) is None  # there is no such folder
    folder.mkdir()
    found = site.fired()
    assert found is not None
    assert found["whole"] is True
    assert (folder / "unit").read_text() == "old"


def test_the_old_server_is_started_once_though_the_end_cannot_be_written_down_yet(site: Site) -> None:
    site.lock.acquire(lease_s=0.1)
    history = site.root / "history.jsonl"
    history.mkdir()  # as a full disk: nothing can be written there
    site.arm_with(watcher_source("r1", "PAUSE_S = 0.1\n"))
    assert site.fired(8.0) is None
    assert site.current == "old"
    history.rmdir()
    found = site.fired()
    assert found is not None
    assert found["whole"] is True
    assert site.said == ["stop", "reload", "start"]


def test_what_is_the_old_one_already_is_not_written_again(site: Site) -> None:
    site.lock.acquire(lease_s=0.1)
    unit = site.root / "unit"
    unit.write_text("old unit")
    before = unit.stat().st_ino
    site.arm()
    assert site.fired() is not None
    assert unit.stat().st_ino == before


def test_a_late_step_of_the_lost_operator_is_undone_too(site: Site) -> None:
    site.lock.acquire(lease_s=0.1)
    link = site.server / "current"
    late = f"[ -e {site.root}/late ] || {{ touch {site.root}/late; ln -sfn ../../releases/new {link}; }}"
    site.arm(start=[["sh", "-c", late]])
    assert site.fired() is not None
    assert (site.root / "late").exists()
    assert site.current == "old"


def test_a_late_order_of_the_lost_operator_that_stops_the_old_server_is_made_good(site: Site) -> None:
    site.lock.acquire(lease_s=0.1)
    looks = "looks = iter([False, True])\nruns = lambda check, tries=1: next(looks)\n"
    site.arm_with(watcher_source("r1", looks))
    found = site.fired()
    assert found is not None
    assert found["whole"] is True
    assert site.said == ["stop", "reload", "start"] * 2


def test_a_host_that_restarts_while_the_operator_is_back_already_waits_for_it(site: Site) -> None:
    site.lock.acquire(lease_s=600)  # renewed after the restart
    site.arm()
    restart(site)
    watcher = subprocess.Popen(shlex.split(site.boot.read_text())[1:])
    time.sleep(1.0)
    assert site.said == []
    assert site.remote.program("deadman", op="disarm", run="r1")["disarmed"] is True
    assert watcher.wait(timeout=30) == 0
    assert site.current == "new"


def test_room_for_the_way_back_is_kept_free_for_the_operator_and_for_the_host(site: Site) -> None:
    site.lock.acquire(lease_s=600)
    site.arm()
    operators, hosts = (site.root / "deadman" / f"reserve-{whose}" for whose in ("operator", "host"))
    for reserve in (operators, hosts):
        assert reserve.stat().st_blocks * 512 >= 4 << 20
    site.remote.program("deadman", op="make_room", run="r1")
    assert not operators.exists()
    assert hosts.exists()  # an operator who is lost now leaves the host its own
    assert site.remote.program("deadman", op="disarm", run="r1")["disarmed"]
    assert not hosts.exists()


def test_what_starts_the_watcher_with_the_host_belongs_to_who_runs_it() -> None:
    account = Account(1000, "deploy", "/home/deploy", True)
    unit, link = "specctl-undo-boot-{run}.service", "multi-user.target.wants/specctl-undo-boot-{run}.service"
    assert set(systemd_commands((), user=False).boot) == {
        f"/etc/systemd/system/{unit}",
        f"/etc/systemd/system/{link}",
    }
    own = systemd_commands(as_user(account, sudo=False), user=True, account=account)
    assert all(path.startswith("/home/deploy/.config/systemd/user/") for path in own.boot)
    rooted = systemd_commands(as_user(account, sudo=True), user=True, account=account)
    assert "After=user@1000.service" in str(rooted.boot[f"/etc/systemd/system/{unit}"])
    plain = supervisor_commands(SupervisorPaths("/opt/specctl"))
    assert list(plain.boot) == ["/opt/specctl/supervisor/conf.d/specctl-undo-{run}.conf"]
