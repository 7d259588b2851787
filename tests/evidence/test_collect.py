"""The whole collection against a stand-in server that misbehaves: what the operator would read."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standin.installed import install_release
from standin.plain import PlainService

from specctl.build.distribution import Distribution
from specctl.config.model import HostConfig, SecretRef, ServerConfig, SshConfig, Supervisor, ThresholdPolicy
from specctl.config.secrets import Secret, secret_file_bytes
from specctl.evidence.clock import Clock
from specctl.evidence.collect import collect, watch
from specctl.evidence.expectation import expectation_for
from specctl.evidence.model import Evidence, Kind, Report, Verdict
from specctl.host.local import LocalHost
from specctl.service.protocol import ServiceState
from specctl.service.state import ServerState, write_state
from specctl.service.unit import unit_for
from specctl.tune.live import change
from specctl.tune.values import Values

SPEC = (
    *("--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "d"),
    *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Site:
    """One installed stand-in and one server that runs it."""

    def __init__(self, root: Path, dist: Distribution) -> None:
        self.root, self.dist = root, dist
        self.host = LocalHost("here")
        self.server = ServerConfig(
            name="main", model="m", port=free_port(), args=SPEC, threshold=ThresholdPolicy(disable=4)
        )
        self.service: PlainService | None = None

    @property
    def config(self) -> HostConfig:
        return HostConfig(
            name="here", ssh=SshConfig("localhost"), servers=(self.server,), root=str(self.root),
            supervisor=Supervisor.SUPERVISOR,
        )  # fmt: skip

    def start(self, *, healthy: bool = True, env: dict[str, str] | None = None, **knobs: str) -> ServerState:
        """Restart it with these knobs, wait, and remember the restart as a deploy would."""
        extra = {f"STANDIN_{k.upper()}": v for k, v in knobs.items()}
        unit = unit_for(self.config, replace(self.server, env={**(env or self.server.env), **extra}))
        if self.service is None:
            self.service = PlainService(self.root / "servers" / "main", unit)
        self.service.unit = unit
        cursor = self.service.restart(5)
        if healthy:
            self.until_healthy()
        state = ServerState(
            "main",
            self.dist.version,
            self.dist.version,
            unit.name,
            cursor.value,
            self.service.state().invocation,
        )
        write_state(self.host, str(self.root), state)
        return state

    def until_healthy(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{self.server.port}/health", timeout=5
                ) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError("the stand-in did not become healthy")

    def collect(self, **more: Any) -> Report:
        assert self.service is not None
        expectation = expectation_for(self.config, self.server, self.dist)
        return collect(self.host, self.config, self.server, expectation, self.service, **more)


def release(root: Path, **knobs: Any) -> Distribution:
    return install_release(root, "main", **knobs)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Distribution]:
    root = tmp_path_factory.mktemp("root")
    return root, release(root)


@pytest.fixture
def site(installed: tuple[Path, Distribution]) -> Iterator[Site]:
    made = Site(*installed)
    yield made
    if made.service:
        made.service.stop(1)
        made.service.log.unlink(missing_ok=True)


def of(report: Report, kind: Kind) -> Evidence:
    return next(e for e in report.evidence if e.kind is kind)


def codes(report: Report) -> list[str]:
    return [e.code for e in report.evidence]


GOOD = ["process-steady", "install-equal", "route-confirmed", "marker-present", "alive"]


def test_a_good_server_passes_all_of_it(site: Site) -> None:
    site.start()
    report = site.collect(hold_s=0.5)
    assert codes(report) == GOOD, report
    assert report.ok
    assert report.release == f"{site.dist.version}-0badcafe"
    assert (report.host, report.server) == ("here", "main")


def test_arguments_that_select_v1_while_only_v2_is_overlaid_fail_with_a_sentence_that_names_the_route(
    tmp_path: Path,
) -> None:
    """The story this tool was made for: it imports, it starts, it is healthy, and nothing happens."""
    site = Site(tmp_path, release(tmp_path, hooks="v2"))
    try:
        site.start()
        report = site.collect()
    finally:
        assert site.service is not None
        site.service.stop(1)
    assert of(report, Kind.PROCESS).verdict is Verdict.PASS
    assert of(report, Kind.INSTALL).verdict is Verdict.PASS
    assert of(report, Kind.ALIVE).verdict is Verdict.PASS
    assert not report.ok
    route = of(report, Kind.ROUTE)
    assert (route.verdict, route.code) == (Verdict.FAIL, "route-not-covered")
    assert route.seen.startswith("these arguments select EAGLEWorker (V1: SGLANG_ENABLE_SPEC_V2 is ")
    assert route.seen.endswith("and the installed overlay hooks only EAGLEWorkerV2")
    assert of(report, Kind.MARKER).code == "marker-absent"
    assert "(base 0.5.9)" in of(report, Kind.MARKER).seen


def test_the_same_distribution_passes_once_the_arguments_select_v2(tmp_path: Path) -> None:
    site = Site(tmp_path, release(tmp_path, hooks="v2"))
    site.server = replace(site.server, env={"SGLANG_ENABLE_SPEC_V2": "1"})
    try:
        site.start()
        assert codes(site.collect()) == GOOD
    finally:
        assert site.service is not None
        site.service.stop(1)


def test_a_server_that_runs_another_worker_than_its_inventory_says_is_named(site: Site) -> None:
    site.start(env={"SGLANG_ENABLE_SPEC_V2": "1"})
    report = site.collect()
    assert of(report, Kind.ROUTE).code == "route-differs"
    assert "EAGLEWorkerV2 runs, though these arguments select EAGLEWorker" in of(report, Kind.ROUTE).seen
    assert of(report, Kind.MARKER).code == "marker-wrong-worker"


@pytest.mark.parametrize(
    ("knobs", "code"),
    [
        ({"no_marker": "1"}, "marker-absent"),
        ({"marker_text": "Dynamic speculation is on"}, "marker-absent"),
        ({"marker_worker": "EAGLEWorkerV2"}, "marker-wrong-worker"),
        ({"marker_threshold": "32"}, "marker-wrong-values"),
        ({"marker_missing_rank": "0"}, "marker-absent"),
        ({"not_utf8": "1"}, "log-not-utf8"),
        ({"long_line": "300000"}, "marker-present"),
    ],
)
def test_each_fault_of_the_marker_has_its_own_verdict(site: Site, knobs: dict[str, str], code: str) -> None:
    site.start(**knobs)
    assert of(site.collect(), Kind.MARKER).code == code


def test_one_silent_rank_of_two_is_named(site: Site) -> None:
    site.server = replace(site.server, args=(*SPEC, "--tp", "2"))
    site.start(marker_missing_rank="1")
    found = of(site.collect(), Kind.MARKER)
    assert (found.code, found.seen) == ("marker-missing-rank", "markers of ranks 0; none of 1")


def test_the_marker_of_the_process_before_the_restart_is_stale(site: Site) -> None:
    site.start()
    assert of(site.collect(), Kind.MARKER).code == "marker-present"
    site.start(no_marker="1")
    assert of(site.collect(), Kind.MARKER).code == "marker-stale"


def test_a_marker_in_a_flood_of_lines_is_found(site: Site) -> None:
    site.start(flood_lines="5000")
    time.sleep(1.0)
    assert of(site.collect(), Kind.MARKER).code == "marker-present"


@pytest.mark.parametrize(
    ("knobs", "code"),
    [
        ({"hang_after_s": "0.1"}, "generation-no-answer"),
        ({"empty_text": "1"}, "generation-empty"),
        ({"html": "1"}, "generation-unreadable"),
        ({"wrong_types": "1"}, "generation-unreadable"),
        ({"huge": "9000000"}, "generation-unreadable"),
    ],
)
def test_a_healthy_server_with_useless_answers_is_not_alive(
    site: Site, knobs: dict[str, str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specctl.evidence.alive.GENERATE_S", 2.0)
    site.start(**knobs)
    time.sleep(0.3)
    found = of(site.collect(), Kind.ALIVE)
    assert (found.code, found.verdict) == (code, Verdict.FAIL)


def test_a_dead_server_is_not_alive_and_not_running(site: Site) -> None:
    site.start()
    assert site.service is not None
    site.service.stop(2)
    report = site.collect()
    assert codes(report)[0] == "process-not-running"
    assert codes(report)[3:] == ["marker-stale", "health-no-answer"]


def test_a_server_that_dies_in_the_hold_window_fails_without_waiting_it_out(site: Site) -> None:
    site.start(die_after_s="6")
    begin = time.monotonic()
    assert of(site.collect(hold_s=300), Kind.PROCESS).code == "process-flapping"
    assert time.monotonic() - begin < 100


def test_the_api_key_is_read_on_the_host_and_is_in_no_report(site: Site) -> None:
    key_file = site.root / "servers" / "main" / "secret.yaml"
    refs = {"--admin-api-key": SecretRef("env", "ADMIN"), "--api-key": SecretRef("env", "KEY")}
    site.server = replace(site.server, secret_args=refs, secret_file=str(key_file))
    values = {"--admin-api-key": Secret("admin-6"), "--api-key": Secret('k"ey-5')}
    key_file.write_bytes(secret_file_bytes(site.server, values))  # as a deploy writes it
    site.start()
    report = site.collect(with_exercise=True)
    assert of(report, Kind.ALIVE).code == "alive"
    assert of(report, Kind.BEHAVIOUR).code == "behaviour-switches"
    assert "ey-5" not in repr(report)
    key_file.write_text("api-key: other\n")
    assert of(site.collect(), Kind.ALIVE).code == "generation-refused"


def test_a_threshold_is_set_with_the_admin_key_where_there_is_one(site: Site) -> None:
    key_file = site.root / "servers" / "main" / "secret.yaml"
    refs = {"--api-key": SecretRef("env", "KEY"), "--admin-api-key": SecretRef("env", "ADMIN")}
    site.server = replace(site.server, secret_args=refs, secret_file=str(key_file))
    key_file.write_bytes(
        secret_file_bytes(site.server, {"--api-key": Secret("key-5"), "--admin-api-key": Secret("admin-6")})
    )
    site.start()
    assert change(site.host, site.config, site.server, Values(3)).values is not None
    assert of(site.collect(), Kind.ALIVE).code == "alive"


def test_a_server_without_tokenizer_is_asked_with_token_ids(site: Site) -> None:
    site.server = replace(site.server, args=(*SPEC, "--skip-tokenizer-init"))
    site.start()
    assert of(site.collect(with_exercise=True), Kind.ALIVE).code == "alive"


def test_files_changed_in_the_live_venv_and_a_shadowing_sglang_are_seen(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.start()
    path = next(site.root.glob("releases/*/venv/lib/*/site-packages/sglang/srt/speculative/eagle_worker.py"))
    original = path.read_bytes()
    path.write_bytes(original + b"# edited\n")
    try:
        found = of(site.collect(), Kind.INSTALL)
    finally:
        path.write_bytes(original)
    assert (found.code, found.seen) == (
        "install-changed-files", "sglang/srt/speculative/eagle_worker.py is changed",
    )  # fmt: skip
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").write_text("")
    site.server = replace(site.server, env={"PYTHONPATH": str(tmp_path)})
    assert of(site.collect(), Kind.INSTALL).code == "install-shadowed"


def test_a_release_that_was_flipped_in_without_a_restart_is_not_what_runs(site: Site) -> None:
    site.start()
    time.sleep(3)
    current = site.root / "servers" / "main" / "current"
    target = current.readlink()
    current.unlink()
    current.symlink_to(target)
    assert of(site.collect(), Kind.INSTALL).code == "install-not-running"


@pytest.mark.parametrize(
    ("knobs", "code"),
    [
        ({}, "behaviour-switches"),
        ({"never_off": "1"}, "behaviour-stayed-on"),
        ({"never_on": "1"}, "behaviour-stayed-off"),
        ({"no_decode_graphs": "1"}, "behaviour-no-graphs"),
        ({"wrong_text_off": "1"}, "behaviour-text-differs"),
        ({"no_state": "1"}, "behaviour-no-state"),
        ({"only_old_info": "1"}, "behaviour-switches"),
    ],
)
def test_an_exercise_sees_what_the_switch_does_and_fails_to_do(
    site: Site, knobs: dict[str, str], code: str
) -> None:
    site.start(**knobs)
    found = of(site.collect(with_exercise=True), Kind.BEHAVIOUR)
    assert found.code == code, found
    assert found.seen.endswith("; load by sglang.bench_serving") or code == "behaviour-no-state"


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit('OSError: no tokenizer there')\n", "OSError: no tokenizer there"),
        ("", "it said nothing"),
    ],
)
def test_a_generator_that_cannot_run_is_replaced_and_the_report_says_why(
    site: Site, module: str, says: str
) -> None:
    bench = next(site.root.glob("releases/*/venv/lib/*/site-packages/sglang/bench_serving.py"))
    kept = bench.read_bytes()
    bench.unlink()
    bench.write_text(module)
    try:
        site.start()
        found = of(site.collect(with_exercise=True), Kind.BEHAVIOUR)
    finally:
        bench.unlink()
        bench.write_bytes(kept)
    assert found.code == "behaviour-switches", found
    want = f"load by a burst of specctl's own, because sglang.bench_serving cannot run here: {says}"
    assert found.seen.endswith(want), found.seen


def test_a_server_without_a_tokenizer_is_exercised_with_tokens(site: Site) -> None:
    site.server = replace(site.server, args=(*SPEC, "--skip-tokenizer-init"))
    try:
        site.start()
        found = of(site.collect(with_exercise=True), Kind.BEHAVIOUR)
    finally:
        site.server = replace(site.server, args=SPEC)
    assert found.code == "behaviour-switches", found
    assert found.seen.endswith("the server runs without a tokenizer")


def test_an_exercise_leaves_the_server_as_it_was(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = site.root / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    site.start()
    site.collect(with_exercise=True)
    assert list(scratch.iterdir()) == []
    with urllib.request.urlopen(f"http://127.0.0.1:{site.server.port}/server_info") as answer:
        state = json.load(answer)["internal_states"][0]["dynamic_speculation"]
    assert (state["state"], state["threshold"], state["resume"]) == ("on", 4, 2)


def test_no_burst_is_sent_to_a_server_that_does_not_generate(site: Site) -> None:
    site.start(empty_text="1")
    assert of(site.collect(with_exercise=True), Kind.BEHAVIOUR).code == "behaviour-not-tried"


def test_a_server_without_threshold_needs_no_marker(site: Site) -> None:
    site.server = replace(site.server, threshold=None)
    site.start()
    report = site.collect(with_exercise=True)
    assert codes(report)[:4] == ["process-steady", "install-equal", "route-not-asked", "marker-not-expected"]
    assert codes(report)[4:] == ["alive", "behaviour-not-asked"]
    assert report.ok


class Ticking:
    """A service whose looks are given, and a clock that only moves by sleeping."""

    def __init__(self, looks: list[ServiceState]) -> None:
        self.looks, self.time, self.slept = looks, 0.0, 0

    def state(self) -> ServiceState:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        self.time += seconds

    @property
    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.time, sleep=self.sleep)


def test_the_hold_window_is_looked_at_to_its_end_and_no_longer_than_needed() -> None:
    good = ServiceState("u", True, "active", "running", 5, "a")
    service: Any = Ticking([good])
    assert len(watch(service, 20.0, service.clock)) == 21
    assert service.time == 20.0
    gone: Any = Ticking([good, good, replace(good, active="failed", main_pid=0)])
    assert len(watch(gone, 20.0, gone.clock)) == 3
