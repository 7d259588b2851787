"""Two operators at real hosts at once, their clocks and a host's an hour apart from each other."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from .deploying import REPO, Site, by_host
from .lab import Lab
from .test_deploy_fleet import site as site  # the fixture
from .test_deploy_interrupted import wait_for_line

pytestmark = pytest.mark.lab


WRONG = """
import datetime, time
OFFSET, now = {seconds}, time.time
class Wrong(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return Real.fromtimestamp(time.time(), tz)
time.time = lambda: now() + OFFSET
Wrong.__name__ = "datetime"
Real, datetime.datetime = datetime.datetime, Wrong
"""


def at_another_desk(site: Site, seconds: int) -> Site:
    """The same inventory, from a machine whose clock is wrong by so much, and another user name.

    The clock is that of the one Python process; libfaketime breaks its sleeping.
    """
    folder = site.folder / "other"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(WRONG.replace("{seconds}", str(seconds)))
    return replace(site, folder=folder, env={"PYTHONPATH": f"{folder}:{REPO}", "SUDO_USER": "bob"})


def ended(process: subprocess.Popen[str]) -> tuple[int, Any]:
    out, err = process.communicate(timeout=300)
    assert out.startswith("{"), err[-2000:]
    return process.returncode, by_host(json.loads(out))


def test_overlapping_deploys_share_the_hosts_out_whatever_the_clocks_say(in_lab: Lab, site: Site) -> None:
    for name in ("h1", "h2", "h3"):
        site.host(name, sudo=True)
    in_lab.faults("h2").skew("+1h")
    other = at_another_desk(site, -3600)
    slow = {"start_s": "15"}
    words = ["--yes", "--json", "--dist"]
    first = site.start("deploy", *words, str(site.dist(1, **slow)), "--hosts", "h1,h2")
    wait_for_line(first, "h2: prepare-root ok")
    code, results = ended(other.start("deploy", *words, str(other.dist(2)), "--hosts", "h2,h3"))
    assert code == 5, {h: (r["outcome"], r["error"]) for h, r in results.items()}
    assert {h: r["outcome"] for h, r in results.items()} == {"h2": "locked", "h3": "done"}
    told = results["h2"]["error"]
    assert told["message"].startswith("h2 is locked by ")
    assert "bob" not in told["message"]
    assert told["context"]["for"] == "deploy 0.5.9+specctl.1"
    assert told["context"]["held"].endswith("s by the host's clock")
    assert " h " not in told["context"]["held"]  # seconds or minutes, not the hours between the clocks
    code, results = ended(first)
    assert code == 0, results
    assert {h: r["outcome"] for h, r in results.items()} == {"h1": "done", "h2": "done"}
    assert [site.version(h) for h in site.hosts] == [f"0.5.9+specctl.{n}" for n in (1, 1, 2)]
    assert all(host["lock"] is None for host in site.json("status")["hosts"])
    releases = site.json("history", "--hosts", "h2")["hosts"][0]["releases"]
    assert [r["version"] for r in releases] == ["0.5.9+specctl.1"]  # nothing of the other one's


@pytest.mark.slow
def test_of_two_deploys_begun_together_one_wins_and_the_other_is_exit_5(in_lab: Lab, site: Site) -> None:
    site.host("h1", sudo=True)
    other = at_another_desk(site, 3600)
    dists = [str(desk.dist(n, start_s="12")) for n, desk in ((1, site), (2, other))]
    begun = [
        desk.start("deploy", "--yes", "--json", "--dist", dist)
        for desk, dist in zip((site, other), dists, strict=True)
    ]
    codes = [ended(process)[0] for process in begun]
    assert sorted(codes) == [0, 5]
    assert site.version("h1") == f"0.5.9+specctl.{1 + codes.index(0)}"
    assert site.json("status")["hosts"][0]["lock"] is None


@pytest.mark.slow
def test_a_dead_holders_lock_is_judged_by_the_hosts_clock_not_by_the_askers(in_lab: Lab, site: Site) -> None:
    site.host("h1", sudo=True)
    process = site.start("deploy", "--dist", str(site.dist(1, start_s="600")), "--yes")
    wait_for_line(process, f"start {site.tag}-a ok")
    process.kill()
    process.communicate(timeout=60)
    other = at_another_desk(site, 3600)  # an hour later by this clock, and yet the promise still stands
    refused = other.json("deploy", "--dist", str(other.dist(2)), "--yes", code=5)["hosts"][0]["error"]
    assert "promised" in refused["context"]["why it counts"]
    assert " h " not in refused["context"]["held"]
    assert "by the clock of" in refused["context"]["since"]
