"""Deploys to three hosts: a system's unit, a user's unit, and two servers on one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from release.faulty import FaultyHost

from specctl.config.inventory import load_inventory
from specctl.release.engine import Engine
from specctl.release.makers import deploy_maker
from specctl.release.source import SourceFolder
from specctl.release.wiring import real_ports

from .deploying import Site, by_host
from .lab import Lab

pytestmark = pytest.mark.lab


@pytest.fixture
def site(in_lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site whose units are gone after the test."""
    tag = f"t{abs(hash(request.node.name)) % 10**6}"
    made = Site(in_lab, tmp_path, tag)
    yield made
    in_lab.restore()
    script = (
        f"systemctl stop 'specctl-{tag}*' 'specctl-undo-*'; rm -f /etc/systemd/system/specctl-{tag}*; "
        "systemctl daemon-reload; "
        f"sudo -u deploy XDG_RUNTIME_DIR=/run/user/$(id -u deploy) systemctl --user stop 'specctl-{tag}*'; "
        f"rm -rf /srv/app/{tag} /home/deploy/.config/systemd/user/specctl-{tag}*"
    )
    for name in made.hosts:
        in_lab.machine(name).run("sh", "-c", script, check=False)


def test_three_hosts_are_deployed_and_a_second_deploy_does_nothing(site: Site) -> None:
    site.host("h1", sudo=True)
    site.host("h2", supervisor="systemd-user")
    site.host("h3", sudo=True)
    results = by_host(site.deploy(1))
    assert {h: r["outcome"] for h, r in results.items()} == dict.fromkeys(("h1", "h2", "h3"), "done")
    for result in results.values():
        kinds = {e["kind"]: e["verdict"] for e in result["servers"][0]["evidence"]}
        assert kinds == dict.fromkeys(("process", "install", "route", "marker", "alive"), "pass")
    assert {site.version(h) for h in site.hosts} == {"0.5.9+specctl.1"}
    again = by_host(site.deploy(1))
    assert {r["outcome"] for r in again.values()} == {"unchanged"}
    assert site.json("plan", "--dist", str(site.dist(1)))["exit_code"] == 0
    assert site.json("plan", "--dist", str(site.dist(2)), code=3)["exit_code"] == 3
    assert site.json("status")["exit_code"] == 0


def test_a_broken_second_release_is_undone_and_the_old_process_release_serves(site: Site) -> None:
    site.host("h1", sudo=True)
    site.host("h2", supervisor="systemd-user")
    site.deploy(1)
    done = site.call("deploy", "--dist", str(site.dist(2, die_at_start="1")), "--yes")
    assert done.returncode == 6, done.stderr
    assert "dies at start on purpose" in done.stderr  # the server's own words are shown
    assert done.stdout.count("rolled back") == 2
    assert {site.version(h) for h in site.hosts} == {"0.5.9+specctl.1"}
    assert site.json("status")["exit_code"] == 0
    runs = site.json("history", "--hosts", "h1")["hosts"][0]["runs"]
    assert [(r["command"], r["result"]) for r in runs] == [("deploy", "done"), ("deploy", "rolled back")]
    refused = site.json("rollback", "--yes", code=1)
    assert "failed" not in refused["hosts"][0]["outcome"] or "no release" in str(refused["hosts"][0]["error"])


@pytest.mark.slow
def test_three_rollbacks_in_a_row_go_three_releases_back(site: Site) -> None:
    site.host("h1", sudo=True, keep_releases=9)
    for number in (1, 2, 3, 4):
        site.deploy(number)
    seen = []
    for _ in range(3):
        site.json("rollback", "--yes")
        seen.append(site.version("h1"))
    assert seen == ["0.5.9+specctl.3", "0.5.9+specctl.2", "0.5.9+specctl.1"]
    error = site.json("rollback", "--yes", code=1)["hosts"][0]["error"]
    assert error["code"] == "no-target"
    newest = next(
        r["id"]
        for r in site.json("history", "--hosts", "h1")["hosts"][0]["releases"]
        if "specctl.4-" in r["id"]
    )
    site.json("rollback", "--to", newest, "--yes")
    assert site.version("h1") == "0.5.9+specctl.4"


def test_one_unreachable_host_of_three_fails_and_the_others_are_deployed(site: Site) -> None:
    for name in ("h1", "h2", "h3"):
        site.host(name, sudo=True)
    site.lab.faults("h2").black_hole()
    results = by_host(site.deploy(1, code=4))
    assert {h: r["outcome"] for h, r in results.items()} == {"h1": "done", "h2": "unreachable", "h3": "done"}
    site.lab.restore()
    results = by_host(site.deploy(1, "--resume"))
    assert {h: r["outcome"] for h, r in results.items()} == {"h2": "done"}


def test_an_unreachable_canary_keeps_the_rest_untouched(site: Site) -> None:
    for name in ("h1", "h2", "h3"):
        site.host(name, sudo=True)
    site.lab.faults("h1").black_hole()
    results = by_host(site.deploy(1, "--canary", "1", code=4))
    assert {h: r["outcome"] for h, r in results.items()} == {
        "h1": "unreachable",
        "h2": "skipped",
        "h3": "skipped",
    }
    assert "No such file" in site.lab.machine("h2").run("ls", f"/srv/app/{site.tag}", check=False)


def two_servers(site: Site, **second: object) -> None:
    site.host("h1", sudo=True)
    first = site.hosts["h1"]["servers"][0]
    other = {**first, "name": f"{site.tag}-b", "port": 31001, **second}
    site.hosts["h1"]["servers"] = [first, other]


@pytest.mark.slow
def test_two_servers_of_a_host_share_a_release_and_each_goes_back_on_its_own(site: Site) -> None:
    two_servers(site)
    site.deploy(1)
    site.deploy(2)
    site.json("rollback", "--server", f"{site.tag}-b", "--yes")
    assert site.version("h1", 31000) == "0.5.9+specctl.2"
    assert site.version("h1", 31001) == "0.5.9+specctl.1"
    for number in (3, 4, 5):
        site.deploy(number, "--server", f"{site.tag}-a")
    releases = {r["version"] for r in site.json("history", "--hosts", "h1")["hosts"][0]["releases"]}
    assert "0.5.9+specctl.1" in releases  # pruned for server a, still needed by server b
    assert site.version("h1", 31001) == "0.5.9+specctl.1"


def test_a_second_server_that_fails_takes_the_first_one_back_with_it(site: Site) -> None:
    two_servers(site)
    site.deploy(1)
    site.hosts["h1"]["servers"][1]["env"] = {"STANDIN_DIE_AT_START": "1"}
    result = by_host(site.deploy(2, code=6))["h1"]
    assert result["outcome"] == "rolled back"
    assert {site.version("h1", port) for port in (31000, 31001)} == {"0.5.9+specctl.1"}


def test_a_first_deploy_that_fails_is_exit_1_and_leaves_no_unit_behind(site: Site) -> None:
    site.host("h1", sudo=True)
    result = by_host(site.deploy(1, code=1, die_at_start="1"))["h1"]
    assert result["outcome"] == "failed"
    assert "stopped" in result["state"]
    left = site.lab.machine("h1").run("sh", "-c", f"ls /etc/systemd/system | grep -c {site.tag}", check=False)
    assert left.strip() == "0"


@pytest.mark.slow
def test_pruning_keeps_what_serves_and_the_way_back(site: Site) -> None:
    site.host("h1", sudo=True, keep_releases=9)
    for number in (1, 2, 3):
        site.deploy(number)
    site.deploy(4, code=6, die_at_start="1")
    site.json("prune", "--keep", "1", "--yes")
    left = {r["version"] for r in site.json("history", "--hosts", "h1")["hosts"][0]["releases"]}
    assert left == {"0.5.9+specctl.2", "0.5.9+specctl.3", "0.5.9+specctl.4"}  # 4 failed: kept to be looked at
    site.json("rollback", "--yes")
    assert site.version("h1") == "0.5.9+specctl.2"


def test_changed_arguments_alone_are_shown_by_diff_and_restart_the_server(site: Site) -> None:
    site.host("h1", sudo=True)
    site.deploy(1)
    site.hosts["h1"]["servers"][0]["threshold"] = {"disable": 24, "resume": 20, "resume_steps": 4}
    done = site.call("diff", "--dist", str(site.dist(1)))
    assert done.returncode == 3, done.stderr
    assert "+ExecStart=" in done.stdout
    assert "24" in done.stdout
    assert site.json("status", code=3)["hosts"][0]["servers"][0]["drift"] == ["unit: changed"]
    result = by_host(site.deploy(1))["h1"]
    marker = next(e for e in result["servers"][0]["evidence"] if e["kind"] == "marker")
    assert "threshold=24" in marker["seen"] or "24" in marker["expected"]


@pytest.mark.slow
def test_each_host_rolls_back_to_what_it_had_itself(site: Site) -> None:
    site.host("h1", sudo=True)
    site.host("h2", sudo=True)
    for number, hosts in ((1, "h1"), (2, "h1,h2"), (3, "h2")):
        site.deploy(number, "--hosts", hosts)
    results = by_host(site.json("rollback", "--yes"))
    assert {h: r["outcome"] for h, r in results.items()} == {"h1": "done", "h2": "done"}
    assert site.version("h1") == "0.5.9+specctl.1"
    assert site.version("h2") == "0.5.9+specctl.2"


@pytest.mark.parametrize("kind", [{"sudo": True}, {"supervisor": "systemd-user"}])
def test_nothing_to_do_costs_a_handful_of_round_trips(site: Site, kind: dict[str, object]) -> None:
    site.host("h1", **kind)
    site.deploy(1)
    counter = [0]
    ports = real_ports()
    counted = replace(ports, connect=lambda config: FaultyHost(ports.connect(config), counter))
    (config,) = load_inventory(site.inventory, environ={}).hosts
    plan = Engine(counted).plan(config, deploy_maker(counted, SourceFolder(site.dist(1))))
    assert not plan.changes
    assert counter[0] <= 4  # who we are, what is there, does it run; a model's folder at most
