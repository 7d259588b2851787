"""What must be seen, from the inventory and the distribution alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specctl.build.distribution import Distribution
from specctl.config.model import HostConfig, SecretRef, ServerConfig, SshConfig, ThresholdPolicy
from specctl.evidence.collect import api_key_sources
from specctl.evidence.expectation import expectation_for, local_ranks, local_url, number

V1, V2 = "sglang/srt/speculative/eagle_worker.py", "sglang/srt/speculative/eagle_worker_v2.py"
SPEC = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d"),
    *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
)
SERVER = ServerConfig(
    "main", "/m", 30000, args=SPEC, threshold=ThresholdPolicy(16, resume=12, draft_sync="warm")
)


def expect(server: ServerConfig = SERVER, files: tuple[str, ...] = (V1, V2), **more: Any) -> Any:
    host = HostConfig("h1", SshConfig("h1"), (server,))
    dist = Distribution("0.5.9+specctl.3", "w", "0", "0.5.9", "0", (), dict.fromkeys(files, "aa"), {}, "t")
    return expectation_for(host, server, dist, **more)


def test_the_plan_says_worker_values_files_and_place() -> None:
    found = expect()
    assert (found.worker, found.threshold, found.resume, found.resume_steps, found.draft_sync) == (
        "EAGLEWorker", 16, 12, None, "warm",
    )  # fmt: skip
    assert (found.distribution, found.url, found.ranks, found.tp_size) == (
        "0.5.9+specctl.3", "http://127.0.0.1:30000", (0,), 1,
    )  # fmt: skip
    assert found.covers == ("EAGLEWorker", "EAGLEWorkerV2")
    assert any("SGLANG_ENABLE_SPEC_V2" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("value", "worker"), [("1", "EAGLEWorkerV2"), ("true", "EAGLEWorkerV2"), ("0", "EAGLEWorker")]
)
def test_the_servers_environment_decides_the_worker(value: str, worker: str) -> None:
    assert expect(replace(SERVER, env={"SGLANG_ENABLE_SPEC_V2": value})).worker == worker


def test_a_distribution_covers_only_the_workers_whose_file_it_overlays() -> None:
    assert expect(files=(V2,)).covers == ("EAGLEWorkerV2",)
    assert expect(files=()).covers == ()


def test_arguments_that_sglang_refuses_are_a_problem_and_no_worker() -> None:
    found = expect(replace(SERVER, args=(*SPEC, "--no-such-flag")))
    assert found.worker is None
    assert "--no-such-flag" in found.problems[0]


@pytest.mark.parametrize(
    ("args", "ranks", "size"),
    [
        (("--tp", "4"), (0, 1, 2, 3), 4),
        (("--tp-size=2",), (0, 1), 2),
        (("--tensor-parallel-size", "2", "--tp", "8"), tuple(range(8)), 8),
        (("--tp", "4", "--nnodes", "2", "--node-rank", "1"), (2, 3), 4),
        (("--tp", "4", "--nnodes", "2", "--node-rank", "0"), (0, 1), 4),
    ],
)
def test_every_rank_that_logs_on_this_host_is_expected(
    args: tuple[str, ...], ranks: tuple[int, ...], size: int
) -> None:
    found = expect(replace(SERVER, args=(*SPEC, *args)))
    assert (found.ranks, found.tp_size) == (ranks, size)


def test_odd_numbers_of_ranks_do_not_crash() -> None:
    assert local_ranks(1, 4, 3) == (0,)
    assert local_ranks(0, 0, 0) == (0,)
    assert number(["--tp", "x"], ("--tp",), 1) == 1
    assert number(["--tp"], ("--tp",), 1) == 1


@pytest.mark.parametrize(
    ("bind", "args", "url"),
    [
        ("0.0.0.0", (), "http://127.0.0.1:30000"),
        ("10.0.0.7", (), "http://10.0.0.7:30000"),
        ("::", (), "http://[::1]:30000"),
        ("fd00::7", (), "http://[fd00::7]:30000"),
        ("127.0.0.1", ("--ssl-certfile", "c"), "https://127.0.0.1:30000"),
    ],
)
def test_the_server_is_asked_where_it_listens(bind: str, args: tuple[str, ...], url: str) -> None:
    assert local_url(replace(SERVER, bind=bind), args) == url


def test_the_file_of_secret_arguments_is_not_looked_into_for_the_route() -> None:
    server = replace(
        SERVER, secret_args={"--api-key": SecretRef("env", "K")}, secret_file="/opt/x/secret.yaml"
    )
    assert expect(server).worker == "EAGLEWorker"
    assert api_key_sources(server) == (["/opt/x/secret.yaml"], None)
    assert api_key_sources(replace(SERVER, args=("--api-key", "k"))) == ([], "k")
    assert api_key_sources(replace(SERVER, args=("--api-key=k",))) == ([], "k")


def test_a_config_file_on_the_host_takes_part_in_the_route() -> None:
    server = replace(SERVER, args=("--config", "/etc/sg.yaml"))
    config = b"speculative-algorithm: EAGLE3\nspeculative-draft-model-path: d\nspeculative-num-steps: 3\n" \
        b"speculative-eagle-topk: 1\nspeculative-num-draft-tokens: 4\n"  # fmt: skip
    found = expect(server, read=lambda path: config if path == "/etc/sg.yaml" else None)
    assert (found.worker, found.problems) == ("EAGLEWorker", ())
    assert expect(server).problems
