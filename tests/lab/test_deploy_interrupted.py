"""Deploys that do not end as begun: Ctrl-C, a killed operator, a lost link, two at once."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .deploying import Site, by_host
from .lab import Lab
from .test_deploy_fleet import site as site  # the fixture

pytestmark = pytest.mark.lab


def wait_for_line(process: subprocess.Popen[str], part: str, seconds: float = 120) -> None:
    """Read the progress of a running deploy until a line holds `part`."""
    assert process.stderr is not None
    end = time.monotonic() + seconds
    seen = []
    while time.monotonic() < end:
        line = process.stderr.readline()
        seen.append(line)
        if part in line:
            return
        if not line and process.poll() is not None:
            break
    raise AssertionError(f"no line with {part!r}: {''.join(seen)[-2000:]}")


def until(what: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.5)


@pytest.fixture
def switching(site: Site) -> Iterator[subprocess.Popen[str]]:
    """Release 1 serves on h1; the deploy of release 2 has restarted the server, which never gets healthy."""
    site.host("h1", sudo=True)
    site.hosts["h1"]["servers"][0]["timers"]["start"] = 300
    site.deploy(1)
    process = site.start("deploy", "--dist", str(site.dist(2, start_s="600")), "--yes")
    try:
        wait_for_line(process, f"start {site.tag}-a ok")
        lease = f"/srv/app/{site.tag}/lock/lease.json"
        until(lambda: "gate" in site.lab.machine("h1").run("cat", lease, check=False), 30)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


def test_ctrl_c_puts_the_old_release_back_frees_the_lock_and_is_exit_130(
    site: Site, switching: subprocess.Popen[str]
) -> None:
    switching.send_signal(signal.SIGINT)
    out, err = switching.communicate(timeout=120)
    assert switching.returncode == 130, err
    assert "serves 0.5.9+specctl.1" in err
    assert site.version("h1") == "0.5.9+specctl.1"
    assert site.json("status")["hosts"][0]["lock"] is None
    assert "interrupted" in out


def test_a_second_deploy_meets_the_lock_and_is_told_who_holds_it(
    site: Site, switching: subprocess.Popen[str]
) -> None:
    error = site.deploy(3, code=5)["hosts"][0]["error"]
    assert error["code"] == "locked"
    assert error["context"]["for"] == "deploy 0.5.9+specctl.2"
    assert error["context"]["at"] == f"gate {site.tag}-a"
    assert site.json("unlock", code=5)["hosts"] == []
    assert switching.poll() is None


def test_when_the_operators_machine_dies_the_host_goes_back_by_itself_and_the_next_deploy_goes_on(
    site: Site, switching: subprocess.Popen[str]
) -> None:
    switching.kill()
    switching.communicate(timeout=60)
    status = site.json("status", code=3)["hosts"][0]
    assert "has no end" in status["unfinished"]
    assert f"gate {site.tag}-a" in status["unfinished"]
    until(lambda: site.version("h1") == "0.5.9+specctl.1", 150)
    until(lambda: "went back by itself" in str(site.json("status", code=3)["hosts"][0]["unfinished"]), 60)
    result = by_host(site.deploy(3))["h1"]
    assert result["outcome"] == "done"
    assert site.version("h1") == "0.5.9+specctl.3"
    results = [(r["command"], r["result"]) for r in site.json("history", "--hosts", "h1")["hosts"][0]["runs"]]
    assert ("undo by the host", "rolled back") in results
    assert ("deploy", "unfinished") in results
    assert site.json("status")["exit_code"] == 0


@pytest.mark.slow
def test_after_a_killed_deploy_a_rollback_goes_back_without_waiting_for_the_host(
    site: Site, switching: subprocess.Popen[str]
) -> None:
    switching.kill()
    switching.communicate(timeout=60)
    site.json("unlock", "--force")
    # the host's own timer acts at this very moment; whoever comes first, the other one says so
    until(lambda: site.call("rollback", "--yes").returncode == 0, 90)
    assert site.version("h1") == "0.5.9+specctl.1"
    assert site.json("status")["exit_code"] == 0


@pytest.mark.slow
def test_a_link_that_is_lost_after_the_flip_is_exit_4_and_the_host_goes_back_by_itself(
    in_lab: Lab, site: Site, switching: subprocess.Popen[str]
) -> None:
    in_lab.faults("h1").cut()
    _, err = switching.communicate(timeout=200)
    assert switching.returncode == 4, err
    assert "goes back to the old release by itself" in err
    in_lab.restore()
    until(lambda: site.version("h1") == "0.5.9+specctl.1", 150)


@pytest.mark.slow
def test_a_host_that_restarts_before_the_gate_while_the_operator_is_lost_serves_the_old_release(
    in_lab: Lab, site: Site, switching: subprocess.Popen[str]
) -> None:
    switching.kill()
    switching.communicate(timeout=60)
    in_lab.faults("h1").power_off()
    in_lab.restore()
    until(lambda: site.version("h1") == "0.5.9+specctl.1", 60)  # no promise of the lost run is waited for
    until(lambda: "went back by itself" in str(site.json("status", code=3)["hosts"][0]["unfinished"]), 60)
    left = in_lab.machine("h1").run("find", "/etc/systemd/system", "-name", "specctl-undo-*")
    assert left.strip() == ""


def test_a_short_loss_of_the_link_is_ridden_out(in_lab: Lab, site: Site) -> None:
    site.host("h1", sudo=True)
    process = site.start("deploy", "--dist", str(site.dist(1, start_s="12")), "--yes")
    wait_for_line(process, f"start {site.tag}-a ok")
    in_lab.faults("h1").kill_ssh_sessions()
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert site.version("h1") == "0.5.9+specctl.1"


def test_help_touches_no_host_and_takes_no_lock(site: Site, tmp_path: Path) -> None:
    site.host("h1", sudo=True)
    for words in (
        ["deploy", "--dist", str(tmp_path), "--yes"],
        ["rollback"],
        ["prune"],
        ["unlock", "--force"],
    ):
        assert site.call(*words, "--help").returncode == 0
    assert "No such file" in site.lab.machine("h1").run("ls", f"/srv/app/{site.tag}", check=False)
