"""The evidence against the real SGLang on the CPU: markers, routes, /server_info and an exercise as they are.

The release folder is laid out as a deploy leaves it; its interpreter is the rig's, with the rig's shims.
"""

from __future__ import annotations

import hashlib
import shutil
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig import environment
from rig.server import Spec
from standin.plain import PlainService

from specctl.build.distribution import Distribution
from specctl.config.model import HostConfig, ServerConfig, SshConfig, Supervisor, ThresholdPolicy
from specctl.evidence.collect import collect
from specctl.evidence.expectation import expectation_for
from specctl.evidence.model import Evidence, Kind, Report, Verdict
from specctl.host.local import LocalHost
from specctl.service.state import ServerState, write_state
from specctl.service.unit import unit_for

pytestmark = [pytest.mark.rig, pytest.mark.timeout(1200)]
V1_FILE = "sglang/srt/speculative/eagle_worker.py"
READY_S = 300.0


@pytest.fixture(scope="module")
def dist_files() -> dict[str, str]:
    """What the rig's distribution overlays: every file that is not as in the published wheel."""
    reason = environment.why_not()
    if reason:
        pytest.skip(reason)
    base, dist = environment.tree("base"), environment.tree("dist")
    found = {}
    for path in sorted(dist.glob("sglang/srt/**/*.py")):
        name = path.relative_to(dist).as_posix()
        data = path.read_bytes()
        if not (base / name).exists() or (base / name).read_bytes() != data:
            found[name] = hashlib.sha256(data).hexdigest()
    return found


class Site:
    """One release of the rig's distribution, and one server."""

    def __init__(self, root: Path, files: dict[str, str], *, without: str | None = None) -> None:
        self.root = root
        release = root / "releases" / "r1"
        site = release / "venv/lib/python3/site-packages"
        site.mkdir(parents=True)
        shutil.copytree(environment.tree("dist") / "sglang", site / "sglang", copy_function=shutil.copy)
        for info in environment.tree("dist").glob("sglang-*.dist-info"):
            shutil.copytree(info, site / info.name)
        if without:
            shutil.copy(environment.tree("base") / without, site / without)
            files = {name: sha256 for name, sha256 in files.items() if name != without}
        version = next(site.glob("sglang-*.dist-info")).name[len("sglang-") : -len(".dist-info")]
        self.dist = Distribution(version, "", "", "0.5.9", "", (), files, {}, "test")
        python = release / "venv/bin/python"
        python.parent.mkdir(parents=True)
        path = f"{environment.SHIMS}:{site}:{environment.bench()}"
        python.write_text(
            f"""#!/bin/sh
export PYTHONPATH="{path}" PYTHONPYCACHEPREFIX="{environment.HOME / "pycache"}"
unset PYTHONDONTWRITEBYTECODE # torch is compiled once, not for each run of the load generator
exec {environment.python()} -W ignore "$@"
"""
        )
        python.chmod(0o755)
        folder = root / "servers/main"
        folder.mkdir(parents=True)
        (folder / "current").symlink_to("../../releases/r1")
        self.service: PlainService | None = None

    def start(self, worker: str, threshold: int | None = 3) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = int(s.getsockname()[1])
        argv = Spec(worker=worker, radix=False).argv(port)
        args = tuple(argv[argv.index("--device") :])
        policy = None if threshold is None else ThresholdPolicy(disable=threshold, resume=2, resume_steps=3)
        env = {"SGLANG_ENABLE_SPEC_V2": str(worker == "v2")}
        self.server = ServerConfig("main", argv[1], port, args=args, env=env, threshold=policy)
        self.config = HostConfig("here", SshConfig("localhost"), (self.server,), root=str(self.root),
                                 supervisor=Supervisor.SUPERVISOR)  # fmt: skip
        self.service = PlainService(self.root / "servers/main", unit_for(self.config, self.server))
        cursor = self.service.restart(5)
        deadline = time.monotonic() + READY_S
        while not self.healthy():
            state = self.service.state()
            assert state.running, "\n".join(x.text for x in self.service.lines_since(cursor, tail=30).tail)
            assert time.monotonic() < deadline, "not ready"
            time.sleep(1)
        remembered = ServerState(
            "main", "r1", self.dist.version, "u", cursor.value, self.service.state().invocation
        )
        write_state(LocalHost("here"), str(self.root), remembered)

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.server.port}/health_generate", timeout=30
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def collect(self, **more: Any) -> Report:
        assert self.service is not None
        expectation = expectation_for(self.config, self.server, self.dist)
        return collect(LocalHost("here"), self.config, self.server, expectation, self.service, **more)

    def close(self) -> None:
        if self.service is not None:
            self.service.stop(20)
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def make(dist_files: dict[str, str], tmp_path: Path) -> Iterator[Any]:
    made: list[Site] = []

    def one(**more: Any) -> Site:
        made.append(Site(tmp_path / "root", dist_files, **more))
        return made[-1]

    yield one
    for site in made:
        site.close()


def of(report: Report, kind: Kind) -> Evidence:
    return next(e for e in report.evidence if e.kind is kind)


@pytest.mark.parametrize("worker", [pytest.param("v1", marks=pytest.mark.slow), "v2"])
def test_a_real_server_proves_itself_and_its_switch_with_identical_texts(make: Any, worker: str) -> None:
    site = make()
    site.start(worker)
    report = site.collect(with_exercise=True, hold_s=1.0)
    assert [e.code for e in report.evidence] == [
        "process-steady", "install-equal", "route-confirmed", "marker-present", "alive", "behaviour-switches",
    ], report  # fmt: skip
    seen = of(report, Kind.BEHAVIOUR).seen
    assert "without CUDA graphs" in seen
    assert "14 of 14 texts identical" in seen  # two waves of seven
    assert seen.endswith("load by sglang.bench_serving"), seen
    assert {"v1": "EAGLEWorker ", "v2": "EAGLEWorkerV2 "}[worker] in of(report, Kind.ROUTE).seen


def test_the_real_v1_worker_runs_while_only_v2_was_overlaid(make: Any) -> None:
    """It starts, is healthy and generates, and the flag was even accepted; the switch is not there."""
    site = make(without=V1_FILE)
    site.start("v1")
    report = site.collect()
    assert of(report, Kind.ALIVE).verdict is Verdict.PASS
    route = of(report, Kind.ROUTE)
    assert route.code == "route-not-covered"
    assert "these arguments select EAGLEWorker (V1: SGLANG_ENABLE_SPEC_V2 is" in route.seen
    assert "hooks only EAGLEWorkerV2" in route.seen
    assert of(report, Kind.MARKER).code == "marker-absent"


@pytest.mark.slow
def test_a_real_server_without_the_flag_has_no_marker(make: Any) -> None:
    site = make()
    site.start("v1", threshold=None)
    report = site.collect()
    assert [e.code for e in report.evidence][2:] == ["route-not-asked", "marker-not-expected", "alive"]
    assert report.ok
