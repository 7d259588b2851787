"""The stand-in must behave as the tests that use it believe."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from specctl.build.distribution import Distribution
from standin.build import make_standin_distribution
from standin.knobs import Knobs

SPEC = ["--speculative-algorithm", "EAGLE", "--speculative-disable-batch-threshold", "4"]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def ask(port: int, path: str, body: Any = None) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            data = answer.read()
            return answer.status, json.loads(data) if data else None
    except urllib.error.HTTPError as exc:
        return exc.code, None


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of a venv into which uv installed the stand-in's wheel."""
    folder = tmp_path_factory.mktemp("standin")
    dist = make_standin_distribution(folder / "dist")
    venv = folder / "venv"
    uv = str(Path(sys.executable).parent / "uv")
    quiet = {"check": True, "capture_output": True}
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(venv)], **quiet)
    wheel = str(folder / "dist" / dist.wheel)
    subprocess.run(
        [uv, "pip", "install", "-q", "--no-index", "--python", f"{venv}/bin/python", wheel], **quiet
    )
    return f"{venv}/bin/python"


class Running:
    """A stand-in process with its log."""

    def __init__(self, python: str, log: Path, args: list[str], **env: str) -> None:
        self.port, self.log = free_port(), log
        self.process = subprocess.Popen(
            [python, "-m", "sglang.launch_server", "--port", str(self.port), *args],
            stderr=log.open("wb"),
            env={"PATH": os.environ["PATH"], **env},
            cwd="/",
        )

    def wait(self) -> Running:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                if ask(self.port, "/health")[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError(self.log.read_text(errors="replace"))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def serve(python: str, tmp_path: Path) -> Any:
    running: list[Running] = []

    def start(*args: str, **env: str) -> Running:
        running.append(Running(python, tmp_path / f"log{len(running)}", list(args), **env))
        return running[-1]

    yield start
    for r in running:
        r.close()


def test_a_standin_distribution_reads_back_as_a_distribution(tmp_path: Path) -> None:
    made = make_standin_distribution(tmp_path, "0.5.9+specctl.7", hooks="v2")
    assert Distribution.load(tmp_path) == made
    assert "sglang/srt/speculative/eagle_worker_v2.py" in made.files
    assert "sglang/srt/speculative/eagle_worker.py" not in made.files
    assert (tmp_path / made.wheel).name == "sglang-0.5.9+specctl.7-py3-none-any.whl"


def test_a_mistyped_knob_is_refused() -> None:
    with pytest.raises(ValueError, match="no_markr"):
        Knobs.load({"STANDIN_NO_MARKR": "1"})


@pytest.mark.parametrize(("v2", "worker"), [("0", "EAGLEWorker"), ("1", "EAGLEWorkerV2")])
def test_it_prints_one_marker_of_the_selected_worker(serve: Any, v2: str, worker: str) -> None:
    server = serve(*SPEC, SGLANG_ENABLE_SPEC_V2=v2).wait()
    lines = [x for x in server.log.read_text().splitlines() if "Dynamic speculation disable enabled" in x]
    assert len(lines) == 1
    assert f"worker={worker} " in lines[0]
    assert "threshold=4 resume=2 resume_steps=4 draft_sync=lazy tp_rank=0 tp_size=1" in lines[0]


def test_a_worker_that_is_not_hooked_prints_no_marker_and_has_no_state(serve: Any) -> None:
    server = serve(*SPEC, STANDIN_HOOKS="v2").wait()
    assert "Dynamic speculation" not in server.log.read_text()
    assert "dynamic_speculation" not in ask(server.port, "/server_info")[1]["internal_states"][0]


def test_a_burst_switches_it_off_and_the_text_does_not_change(serve: Any) -> None:
    server = serve(*SPEC).wait()
    body = {"text": "p0", "sampling_params": {"max_new_tokens": 40}}
    alone = ask(server.port, "/generate", body)[1]["text"]
    texts: dict[int, str] = {}

    def one(i: int) -> None:
        texts[i] = ask(server.port, "/generate", {**body, "text": f"p{i}"})[1]["text"]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert texts[0] == alone
    assert len(set(texts.values())) == 8
    assert "Dynamic speculation: off, batch" in server.log.read_text()
    ask(server.port, "/generate", body)
    state = ask(server.port, "/server_info")[1]["internal_states"][0]["dynamic_speculation"]
    assert state["state"] == "on"
    assert state["switches"] == 2


def test_live_changes_are_taken_or_refused(serve: Any) -> None:
    server = serve(*SPEC).wait()
    change = {"server_args": {"speculative_disable_batch_threshold": 9}}
    assert ask(server.port, "/set_internal_state", change) == (200, [True])
    bad = {"server_args": {"speculative_resume_batch_threshold": 10}}
    assert ask(server.port, "/set_internal_state", bad)[0] == 400


def test_sigterm_ends_it_unless_it_was_told_to_ignore_it(serve: Any) -> None:
    good, bad = serve().wait(), serve(STANDIN_IGNORE_SIGTERM="1").wait()
    good.process.terminate()
    bad.process.terminate()
    assert good.process.wait(10) == 0
    with pytest.raises(subprocess.TimeoutExpired):
        bad.process.wait(0.5)


def test_dying_at_start_leaves_a_traceback(serve: Any) -> None:
    server = serve(STANDIN_DIE_AT_START="1")
    assert server.process.wait(10) == 1
    assert "Traceback" in server.log.read_text()


def test_log_bytes_that_are_not_utf8_are_really_there(serve: Any) -> None:
    data = serve(*SPEC, STANDIN_NOT_UTF8="1").wait().log.read_bytes()
    assert b"caf\xe9" in data
    assert b"Dynamic speculation disable enabled" in data
