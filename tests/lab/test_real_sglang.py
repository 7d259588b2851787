"""The real SGLang (CPU target) under a real systemd: deployed, proven, broken, rolled back.

The host sees the rig read-only and has an environment that somebody made by hand on top of it: the published
SGLang and what it needs. Each release adopts it, so the wheel that is deployed is the one that users get.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo.broken import OVERLAY, forget_worker
from rig import environment
from rig.prepare import BASE
from rig.server import Spec

from .deploying import REPO, Site, by_host
from .lab import Lab
from .machine import Bind, Machine

pytestmark = [pytest.mark.lab, pytest.mark.rig, pytest.mark.slow, pytest.mark.timeout(1500)]

RIG, TESTS = "/srv/rig", "/srv/tests"  # where the host sees them; this machine's own paths may be private
SERVING = "/srv/app/serving"
PORT = 31000
SERVE = f"""
python3 -m venv --without-pip {SERVING}
cd {SERVING}/lib/python3*/site-packages
echo {RIG}/venv/lib/python3*/site-packages > serving.pth
echo {RIG}/base >> serving.pth
"""


def seen(word: str) -> str:
    """A word of a command line, with the rig's folders as the host sees them."""
    return word.replace(str(environment.HOME), RIG).replace(str(environment.HERE.parent), TESTS)


def specctl(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "specctl", *words], check=True, cwd=REPO)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A distribution whose hooks in EAGLEWorkerV2 were forgotten; built outside the lab's network."""
    folder = tmp_path_factory.mktemp("broken")
    overlays = str(forget_worker(REPO / "overlays", folder / "overlays", BASE))
    base = str(environment.tree("base"))
    specctl("overlay", "--overlays", overlays, "pin", OVERLAY, "--base-tree", base, "--with", "known-faults")
    own = ("--overlays", overlays, "--revision", "2", "--no-import")
    specctl("build", "--base", BASE, "--output", str(folder / "dist"), *own)
    return folder / "dist"


@pytest.fixture(scope="module")
def third(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good distribution of another revision."""
    folder = tmp_path_factory.mktemp("third")
    specctl("build", "--base", BASE, "--output", str(folder), "--revision", "3", "--no-import")
    return folder


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[Machine]:
    reason = environment.why_not()
    if reason:
        pytest.skip(reason)
    rig = Bind(str(environment.HOME.resolve()), RIG)
    machine = lab.add(disk="3G", binds=[rig, Bind(str(environment.HERE.parent), TESTS)])
    machine.run("sh", "-c", SERVE)
    yield machine
    lab.remove(machine)


@pytest.fixture
def site(in_lab: Lab, host: Machine, tmp_path: Path) -> Site:
    """One host with one server of the real SGLang on EAGLEWorkerV2."""
    made = Site(in_lab, tmp_path, "real")
    spec = Spec(worker="v2", algorithm="EAGLE3")
    argv = [seen(word) for word in spec.argv(PORT)]
    server: dict[str, Any] = {
        "name": "main",
        "model": argv[argv.index("--model-path") + 1],
        "port": PORT,
        "args": argv[argv.index("--device") :],
        "threshold": {"disable": 3, "resume": 2, "resume_steps": 3},
        "timers": {"start": 300, "hold": 3, "stop": 20},
        "env": {
            **spec.environment(),
            "PYTHONPATH": f"{TESTS}/rig/shims",
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": "/srv/app/pycache",
        },
    }
    made.host(host.name, sudo=True, environment="adopted", adopt=SERVING, servers=[server])
    return made


def threshold_is(site: Site, value: int) -> None:
    site.hosts[next(iter(site.hosts))]["servers"][0]["threshold"]["disable"] = value


def marker(machine: Machine) -> str:
    """The newest marker in the host's own journal."""
    lines = machine.run("journalctl", "--no-pager", "-o", "cat").splitlines()
    return [line for line in lines if "Dynamic speculation disable enabled" in line][-1]


def deploy(site: Site, dist: Path, code: int = 0) -> Any:
    (result,) = site.json("deploy", "--dist", str(dist), "--yes", code=code)["hosts"]
    return result


def test_real_servers_under_systemd_are_proven_broken_and_rolled_back(
    broken: Path, third: Path, site: Site, host: Machine
) -> None:
    dist = environment.HOME / "build"
    assert deploy(site, dist)["outcome"] == "done"
    assert "worker=EAGLEWorkerV2" in marker(host)
    (proof,) = site.json("verify", "--exercise")["servers"]
    assert len(proof["evidence"]) == 6
    assert deploy(site, dist)["outcome"] == "unchanged"

    failed = deploy(site, broken, code=6)
    assert failed["outcome"] == "rolled back"
    assert "route-not-covered" in str(failed)
    assert site.version(host.name).endswith("+specctl.1")

    threshold_is(site, 5)
    assert deploy(site, third)["outcome"] == "done"
    assert "threshold=5" in marker(host)
    assert by_host(site.json("rollback", "--yes"))[host.name]["outcome"] == "done"
    assert "threshold=3" in marker(host)
    assert site.version(host.name).endswith("+specctl.1")
    site.json("verify", code=1)  # the inventory still says 5
    threshold_is(site, 3)
    site.json("verify")
