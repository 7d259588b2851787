"""Deploys to three hosts: a system's unit, a user's unit, and two servers on one of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
