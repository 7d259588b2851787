"""Configurations in which the switch could not work stop the server at start, with one clear sentence."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from . import environment
from .cases import THRESHOLD, WORKERS
from .client import Client, Request
from .plugin import Rig
from .server import Server, Spec, free_port

pytestmark = pytest.mark.rig

THRESHOLD_FLAG = "--speculative-disable-batch-threshold"


def refused(name: str, says: str, *flags: str, **spec: Any) -> object:
    values: dict[str, Any] = {"worker": "v1", "algorithm": "EAGLE", "threshold": 5, **spec}
    return pytest.param(Spec(flags=flags, hooks=(), **values), says, id=name)


REFUSALS = [
    refused("negative", f"{THRESHOLD_FLAG} must be 0 or more, not -1", threshold=-1),
    refused("not-a-number", f"argument {THRESHOLD_FLAG}: invalid int value: 'abc'", THRESHOLD_FLAG, "abc"),
    refused("a-fraction", f"argument {THRESHOLD_FLAG}: invalid int value: '2.5'", THRESHOLD_FLAG, "2.5"),
    refused("at-the-limit", "12 can never be exceeded: at most 12 requests run at once", threshold=12),
    refused(
        "at-sglangs-default-limit",
        "48 can never be exceeded: at most 48 requests run at once .48 is the default with speculative",
        threshold=48,
        without=("--max-running-requests",),
    ),
    refused(
        "resume-above-threshold",
        "--speculative-resume-batch-threshold 6 must not be larger than",
        *("--speculative-resume-batch-threshold", "6"),
    ),
    refused(
        "resume-zero",
        "--speculative-resume-batch-threshold must be 1 or more",
        "--speculative-resume-batch-threshold",
        "0",
    ),
    refused(
        "no-dwell", "--speculative-resume-steps must be 1 or more, not 0", "--speculative-resume-steps", "0"
    ),
    refused("unknown-sync", "invalid choice: 'hot'", "--speculative-disable-draft-sync", "hot"),
    refused(
        "resume-without-threshold", "has no effect without", "--speculative-resume-steps", "4", threshold=None
    ),
    refused("no-speculation", "this server does not speculate", worker="plain"),
    refused("standalone", "STANDALONE is not supported", "--speculative-algorithm", "STANDALONE"),
    refused(
        "ngram", "NGRAM|Ngram speculative decoding only supports CUDA", "--speculative-algorithm", "NGRAM"
    ),
    refused(
        "attention-dp",
        "does not support --enable-dp-attention",
        "--enable-dp-attention",
        "--tp",
        "2",
        "--dp",
        "2",
    ),
    refused("pipeline", "does not support pipeline parallelism", "--pp-size", "2"),
    refused(
        "prefill-decode-split",
        "does not support prefill/decode disaggregation",
        "--disaggregation-mode",
        "decode",
    ),
    refused(
        "tree-on-v2", "Spec v2 currently only supports topk = 1", "--speculative-eagle-topk", "4", worker="v2"
    ),
]


@pytest.mark.parametrize(("spec", "says"), REFUSALS)
def test_the_server_does_not_start_and_says_why(rig: Rig, spec: Spec, says: str) -> None:
    with rig.serve(spec, ready=False) as server:
        status = server.wait_end(60)
        log = server.log_text()
    assert status != 0, "a supervisor must see that the start failed"
    lines = [line for line in log.splitlines() if re.search(says, line)]
    assert lines, f"nobody said {says!r}:\n{log[-1500:]}"
    assert "Dynamic speculation disable enabled" not in log
    assert "fired up" not in log


def test_the_default_resume_threshold_and_dwell_are_what_the_marker_says(rig: Rig) -> None:
    for threshold, resume in ((1, 1), (2, 1), (8, 7), (16, 14), (40, 35)):
        spec = Spec("v1", threshold=threshold, hooks=(), flags=("--max-running-requests", "48"))
        with rig.serve(spec, ready=False) as server:
            marker = _wait_marker(server)
        assert [marker[k] for k in ("threshold", "resume", "resume_steps")] == [
            str(threshold),
            str(resume),
            "4",
        ]


def _wait_marker(server: Server) -> dict[str, str]:
    deadline = time.monotonic() + 60
    while not server.markers():
        assert server.status() is None, server.tail()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return server.markers()[0]


@pytest.mark.parametrize("worker", [pytest.param("v1", marks=pytest.mark.slow), "v2"])
def test_started_by_its_own_command_line_it_serves_and_ends_on_sigterm(
    rig: Rig, worker: str, tmp_path: Path
) -> None:
    """Without the nursery: three processes that import SGLang for themselves, as everywhere else."""
    spec = Spec(worker, "EAGLE3", threshold=THRESHOLD)
    port = free_port()
    log = tmp_path / "server.log"
    env = {
        **os.environ,
        **spec.environment(),
        "PYTHONPATH": os.pathsep.join([str(environment.SHIMS), str(environment.tree("dist"))]),
        "PYTHONPYCACHEPREFIX": str(environment.HOME / "pycache"),  # compile torch once, not at each start
    }
    command = [str(environment.python()), "-m", "sglang.launch_server", *spec.argv(port)]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        client = Client(port, timeout_s=20)
        deadline = time.monotonic() + 150
        while True:
            try:
                client.text("/health_generate")
                break
            except OSError:
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.3)
        assert len(client.generate(Request("one", (5, 77, 300), 16)).tokens) == 16
        assert f"enabled: worker={WORKERS[worker]} " in log.read_text()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
