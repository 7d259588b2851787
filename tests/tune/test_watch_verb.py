"""`specctl watch` on a stand-in server under supervisor."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from standin.supervised import Site, until

from tune.commands import specctl, started

pytest.importorskip("supervisor", reason="the test extra's supervisor is not installed")


def test_a_pipe_gets_one_line_for_each_change(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    lines = tmp_path / "lines"
    with lines.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "specctl", "watch", "-i", file, "--interval", "0.2", "--for", "300"],
            stdout=out,
        )
    try:
        until(lambda: "threshold 4/2" in lines.read_text(), 60)
        assert specctl("threshold", "set", "main", "9", "--resume", "7", "-i", file).returncode == 0
        until(lambda: "threshold 9/7" in lines.read_text(), 60)
        site.service.stop(5)
        until(lambda: "down" in lines.read_text(), 60)
    finally:
        process.send_signal(2)
        assert process.wait(30) == 0
    kinds = [line.split("here main: ")[1].split(";")[0] for line in lines.read_text().splitlines()]
    assert kinds[:3] == ["on", "on", "down"]


def test_a_terminal_is_refreshed_in_place(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    argv = [sys.executable, "-m", "specctl", "watch", "-i", file, "--interval", "0.2", "--for", "4"]
    process = subprocess.Popen(argv, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    data = b""
    try:
        while chunk := os.read(ours, 65536):
            data += chunk
    except OSError:  # the other end was closed
        pass
    assert process.wait(30) == 0
    assert b"switches/min" in data
    assert b"4/2 after 4" in data
    assert b"\x1b[1A" in data or b"\x1b[2K" in data, "nothing was redrawn"


def test_once_tells_warnings_by_its_exit_code(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path, no_decode_graphs="1")
    done = specctl("watch", "-i", file, "--once")
    assert done.returncode == 3, done.stderr
    assert "WARNING no CUDA graphs while off" in done.stdout
    found = json.loads(specctl("watch", "-i", file, "--once", "--json").stdout)
    assert (found["server"], found["state"], found["graphs"]) == ("main", "on", False)


def test_once_fails_when_a_server_is_down(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    site.service.stop(5)
    done = specctl("watch", "-i", file, "--once")
    assert done.returncode == 1
    assert "nobody listens there" in done.stdout


@pytest.mark.parametrize("end", [("--once",), ("--for", "0")])
def test_a_host_that_cannot_be_reached_is_told_by_its_exit_code(tmp_path: Path, end: tuple[str, ...]) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(
        "hosts: {gone: {address: 127.0.0.1, ssh: {port: 1, user: ada, config_file: none}, target: cpu,"
        " servers: [{name: main, model: m, port: 30000}]}}\n"
    )
    done = specctl("watch", "-i", str(file), *end)
    assert done.returncode == 4, done.stderr
    assert "gone main: down" in done.stdout


def test_examples_name_the_servers_of_the_inventory(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    done = specctl("watch", "-i", file, "--examples", str(tmp_path / "monitoring"))
    assert done.returncode == 0, done.stderr
    targets = json.loads((tmp_path / "monitoring/targets.json").read_text())
    assert targets == [
        {"targets": [f"127.0.0.1:{site.server.port}"], "labels": {"host": "here", "server": "main"}}
    ]
