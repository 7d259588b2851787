"""Logs of gigabytes, and a line that never ends: the newest is found, in bounded memory and time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from specctl.host.capture import KEPT
from specctl.host.local import LocalHost
from specctl.service.onhost import source
from specctl.service.systemd import JOURNAL

MARK = "Dynamic speculation disable enabled"
UNIT = "specctl-main.service"
MEMORY = 400 << 20  # bytes of address space that a reader may have, Python itself included
SIZES = [pytest.param(48 << 20, id="48MB"), pytest.param((1 << 30) + 5, id="1GB", marks=pytest.mark.slow)]
KINDS = ("one endless line", "short lines", "binary")


def read(program: str, params: dict[str, Any], seconds: float = 300) -> dict[str, Any]:
    """Run a reader as it is run on a host, with no more than `MEMORY`; what it answers, and its size."""
    code = (
        "import json, resource, sys\n"
        "source, params = json.load(sys.stdin)\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))\n"
        "exec(compile(source, 'program', 'exec'), {'__name__': '__main__', 'params': params})\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=json.dumps([program, params]).encode(),
        capture_output=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout) < KEPT  # it must not be cut on its way
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def write_log(path: Path, kind: str, size: int) -> None:
    """A log of about this size with a marker at its end; a hole where nothing but zeros is wanted."""
    with path.open("wb") as log:
        log.write(b"specctl: invocation 1.1\n")
        if kind == "one endless line":
            log.truncate(size)
            log.seek(size)
        else:
            line = (b"x" * 99 if kind == "short lines" else bytes(range(11, 256)) * 4) + b"\n"
            block = line * (1 << 13)
            for _ in range(size // len(block)):
                log.write(block)
        log.write(f"\n{MARK}: worker=EAGLEWorker threshold=16\n".encode())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_marker_at_the_end_of_a_huge_log_file_is_found(tmp_path: Path, kind: str, size: int) -> None:
    path = tmp_path / "server.log"
    write_log(path, kind, size)
    params = {"path": str(path), "cursor": "", "invocation": None, "match": [MARK], "limit": 100, "tail": 5}
    answer = read(source("textlog"), params)
    assert [line["text"].split(":")[0] for line in answer["lines"]] == [MARK]
    assert len(answer["tail"]) == 5 if kind != "one endless line" else answer["tail"]


GENERATE = """
import json, sys
kind, size, mark, unit = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
entry = {"__CURSOR": "s=f;i=1;b=1;m=1;t=1;x=1", "_SYSTEMD_UNIT": unit, "_SYSTEMD_INVOCATION_ID": "a" * 32}
out = sys.stdout.buffer
if kind == "one endless line":
    out.write(b'{"MESSAGE": "')
    for _ in range(size >> 20):
        out.write(b"z" * (1 << 20))
    out.write(b'"}\\n')
else:
    text = "x" * 900 if kind == "short lines" else list(range(11, 256)) * 4
    block = (json.dumps({**entry, "MESSAGE": text}) + "\\n").encode() * 64
    for _ in range(size // len(block)):
        out.write(block)
out.write((json.dumps({**entry, "MESSAGE": mark + ": worker=EAGLEWorker"}) + "\\n").encode())
"""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_marker_at_the_end_of_a_huge_journal_is_found(kind: str, size: int) -> None:
    params = {
        "unit": UNIT,
        "user": False,
        "uid": 0,
        "cursor": "",
        "invocation": None,
        "match": [MARK],
        "limit": 100,
        "tail": 5,
        "timeout_s": 250,
        "full": False,
        "journalctl": [sys.executable, "-c", GENERATE, kind, str(size), MARK, UNIT],
    }
    answer = read(source(*JOURNAL), params)
    assert [line["text"].split(":")[0] for line in answer["lines"]] == [MARK]


@pytest.mark.parametrize("size", SIZES)
def test_a_command_that_prints_without_end_keeps_a_bounded_part(size: int) -> None:
    host = LocalHost("h1")
    tracemalloc.start()
    try:
        begin = time.monotonic()
        result = host.run(["head", "-c", str(size), "/dev/zero"], timeout_s=240)
        lines: list[int] = []
        host.stream(
            ["head", "-c", str(size), "/dev/zero"], lambda line: lines.append(len(line)), timeout_s=240
        )
        assert time.monotonic() - begin < 480
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.dropped == size - KEPT
    assert lines == [64 << 10]  # one line without an end, cut
    assert peak < 4 * KEPT
