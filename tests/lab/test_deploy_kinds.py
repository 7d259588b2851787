"""Deploys to hosts of other kinds: without systemd, with an environment to adopt, with a full disk."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from .deploying import Site, by_host
from .lab import Lab
from .test_deploy_fleet import site as site  # the fixture

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with supervisor's wheel; fetched before the test moves into the lab's network."""
    folder = tmp_path_factory.mktemp("wheels")
    words = ["download", "--quiet", "--no-deps", "-d", str(folder), "supervisor>=4.2.5,<5"]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"supervisor's wheel cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def test_a_host_without_systemd_gets_supervisor_from_the_wheelhouse_and_rolls_back(
    wheelhouse: Path, site: Site
) -> None:
    site.host("h2", supervisor="supervisor", wheelhouse=str(wheelhouse))
    assert by_host(site.deploy(1))["h2"]["outcome"] == "done"
    assert site.version("h2") == "0.5.9+specctl.1"
    assert by_host(site.deploy(1))["h2"]["outcome"] == "unchanged"
    assert by_host(site.deploy(2, code=6, die_at_start="1"))["h2"]["outcome"] == "rolled back"
    assert site.version("h2") == "0.5.9+specctl.1"
    site.deploy(3)
    site.json("rollback", "--yes")
    assert site.version("h2") == "0.5.9+specctl.1"
    control = f"/srv/app/{site.tag}/supervisor/venv/bin/python -m supervisor.supervisorctl"
    site.lab.machine("h2").run(
        "sh", "-c", f"{control} -c /srv/app/{site.tag}/supervisor/supervisord.conf shutdown", check=False
    )


@pytest.mark.slow
def test_without_systemd_too_the_host_goes_back_when_the_operator_is_lost(
    wheelhouse: Path, site: Site
) -> None:
    site.host("h2", supervisor="supervisor", wheelhouse=str(wheelhouse))
    site.hosts["h2"]["servers"][0]["timers"]["start"] = 300
    site.deploy(1)
    process = site.start("deploy", "--dist", str(site.dist(2, start_s="600")), "--yes")
    assert process.stderr is not None
    while f"start {site.tag}-a ok" not in process.stderr.readline():
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    end = time.monotonic() + 180
    while site.version("h2") != "0.5.9+specctl.1":
        assert time.monotonic() < end
        time.sleep(1)
    control = f"/srv/app/{site.tag}/supervisor/venv/bin/python -m supervisor.supervisorctl"
    site.lab.machine("h2").run(
        "sh", "-c", f"{control} -c /srv/app/{site.tag}/supervisor/supervisord.conf shutdown", check=False
    )


@pytest.mark.slow
def test_without_systemd_a_restarted_host_goes_back_once_its_supervisor_is_started(
    wheelhouse: Path, site: Site
) -> None:
    site.host("h2", supervisor="supervisor", wheelhouse=str(wheelhouse))
    site.hosts["h2"]["servers"][0]["timers"]["start"] = 300
    site.deploy(1)
    process = site.start("deploy", "--dist", str(site.dist(2, start_s="600")), "--yes")
    assert process.stderr is not None
    while f"start {site.tag}-a ok" not in process.stderr.readline():
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    machine = site.lab.machine("h2")
    site.lab.faults("h2").power_off()
    site.lab.restore()
    assert "refused" in site.version("h2")  # nothing starts supervisord but its owner
    conf = f"/srv/app/{site.tag}/supervisor/supervisord.conf"
    machine.run("sudo", "-u", "deploy", f"/srv/app/{site.tag}/supervisor/venv/bin/supervisord", "-c", conf)
    end = time.monotonic() + 180
    while site.version("h2") != "0.5.9+specctl.1":
        assert time.monotonic() < end
        time.sleep(1)
    assert "undo" not in machine.run("ls", f"/srv/app/{site.tag}/supervisor/conf.d")
    machine.run("pkill", "-f", conf, check=False)


MANIFEST = "find {env} -printf '%p %s %T@ %i %m %l\\n' | sort | sha256sum"


def test_an_adopted_environment_serves_ours_and_keeps_every_byte_of_its_own(site: Site) -> None:
    machine = site.lab.machine("h1")
    env = f"/srv/app/{site.tag}-env"
    site.host("h1", sudo=True, environment="adopted", adopt=env)
    machine.run(
        "sh",
        "-c",
        f"python3 -m venv --without-pip {env} && cd {env}/lib/python3*/site-packages && "
        "mkdir torch their && echo \"V='theirs'\" > torch/__init__.py && "
        "mkdir -p their/sglang && echo \"__version__='their checkout'\" > their/sglang/__init__.py && "
        "echo $PWD/their > __editable__.sglang-0.5.9.pth",
    )
    before = machine.run("sh", "-c", MANIFEST.format(env=env))
    assert by_host(site.deploy(1))["h1"]["outcome"] == "done"
    assert site.version("h1") == "0.5.9+specctl.1"
    python = f"/srv/app/{site.tag}/servers/{site.tag}-a/current/venv/bin/python"
    code = "import torch, sglang; print(torch.V, sglang.__version__)"
    assert machine.run(python, "-B", "-c", code).strip() == "theirs 0.5.9+specctl.1"
    site.deploy(2)
    site.json("rollback", "--yes")
    assert machine.run("sh", "-c", MANIFEST.format(env=env)) == before
    machine.run("rm", "-rf", env)


def test_a_full_disk_is_told_before_anything_is_touched_and_the_old_release_serves(site: Site) -> None:
    site.host("h1", sudo=True)
    site.deploy(1)
    site.lab.faults("h1").fill("/", leave=20 << 20)
    error = by_host(site.deploy(2, code=2))["h1"]["error"]
    assert error["code"] == "no-room"
    site.lab.restore()
    assert site.version("h1") == "0.5.9+specctl.1"
    assert by_host(site.deploy(2))["h1"]["outcome"] == "done"


def test_a_root_that_may_not_be_written_is_refused_with_two_ways_out(site: Site) -> None:
    site.host("h1", sudo=False)
    site.hosts["h1"]["root"] = f"/opt/{site.tag}"  # deploy may not write there
    error = by_host(site.deploy(1, code=2))["h1"]["error"]
    assert error["code"] == "host-unfit"
    assert "may not write there" in error["message"]
    assert "sudo: true" in error["hint"]


def test_a_server_that_flaps_inside_the_hold_window_is_undone(in_lab: Lab, site: Site) -> None:
    site.host("h1", sudo=True)
    site.hosts["h1"]["servers"][0]["timers"]["hold"] = 12
    site.deploy(1)
    result = by_host(site.deploy(2, code=6, die_after_s="4"))["h1"]
    assert result["outcome"] == "rolled back"
    assert site.version("h1") == "0.5.9+specctl.1"
