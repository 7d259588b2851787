"""verify, logs, restart and stop over ssh, on servers that deploy put there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .deploying import Site
from .lab import Lab

pytestmark = pytest.mark.lab
V1_FILE = "sglang/srt/speculative/eagle_worker.py"


@pytest.fixture
def site(in_lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site whose units are gone after the test."""
    tag = f"v{abs(hash(request.node.name)) % 10**6}"
    made = Site(in_lab, tmp_path, tag)
    made.host("h1", sudo=True)
    made.host("h2", supervisor="systemd-user")
    yield made
    for name in made.hosts:
        made.call("stop", "--hosts", name)
    script = (
        f"rm -rf /srv/app/{tag} /etc/systemd/system/specctl-{tag}* "
        f"/home/deploy/.config/systemd/user/specctl-{tag}*; systemctl daemon-reload"
    )
    for name in made.hosts:
        in_lab.machine(name).run("sh", "-c", script, check=False)


def test_what_was_deployed_is_verified_restarted_read_and_stopped(site: Site) -> None:
    site.deploy(1)
    report = site.json("verify", "--exercise", "--hold", "1")
    assert report["ok"] is True
    assert [r["host"] for r in report["servers"]] == ["h1", "h2"]
    for one in report["servers"]:
        codes = [e["code"] for e in one["evidence"]]
        assert codes[:3] == ["process-steady", "install-equal", "route-confirmed"]
        assert codes[3:] == ["marker-present", "alive", "behaviour-switches"]
    lines = site.call("logs", "--since", "restart")
    assert lines.stdout.count("Dynamic speculation disable enabled") == 2
    assert all(
        line.startswith((f"h1 {site.tag}-a: ", f"h2 {site.tag}-a: ")) for line in lines.stdout.splitlines()
    )
    recent = site.call("logs", f"{site.tag}-a", "--hosts", "h1", "--since", "1h", "--json")
    assert [json.loads(x)["host"] for x in recent.stdout.splitlines()][:1] == ["h1"]
    restarted = site.json("restart", "--hosts", "h2")
    assert restarted["servers"][0]["result"] == "restarted"
    assert restarted["servers"][0]["ok"] is True
    assert site.json("stop")["servers"][0]["result"].startswith("stopped in")
    assert site.json("verify", "--hold", "0", code=1)["ok"] is False


def test_an_overlay_for_the_other_worker_is_refused_by_deploy_and_by_verify(site: Site) -> None:
    del site.hosts["h2"]
    refused = site.call("deploy", "--dist", str(site.dist(1, hooks="v2")), "--yes")
    assert refused.returncode == 2
    assert "its arguments select EAGLEWorker, the distribution overlays EAGLEWorkerV2" in refused.stderr
    site.deploy(2)
    # the arguments stay, and the file that they select is upstream's again, as if it had never been overlaid
    release = f"/srv/app/{site.tag}/servers/{site.tag}-a/current"
    machine = site.lab.machine("h1")
    machine.shell(
        f"echo 'class EAGLEWorker: pass' > {release}/venv/lib/python3*/site-packages/{V1_FILE}; "
        f"sed -i '/{V1_FILE.replace('/', '.')}/d' {release}/dist.json"
    )
    report = site.json("verify", "--hold", "0", code=1)["servers"][0]
    route = next(e for e in report["evidence"] if e["kind"] == "route")
    assert route["code"] == "route-not-covered"
    assert "these arguments select EAGLEWorker (V1: SGLANG_ENABLE_SPEC_V2 is" in route["seen"]
    assert route["seen"].endswith("and the installed overlay hooks only EAGLEWorkerV2")


def test_a_host_that_is_cut_off_is_unreachable_and_the_other_is_still_verified(site: Site) -> None:
    site.deploy(1)
    site.lab.faults("h2").cut()
    report = site.json("verify", "--hold", "0", code=4)
    assert [r["host"] for r in report["servers"]] == ["h1"]
    assert report["servers"][0]["ok"] is True
    assert [e["host"] for e in report["errors"]] == ["h2"]
    site.lab.restore()
