"""`specctl restart`, `verify`, `logs`, `stop` as an operator types them, on this machine under supervisor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from standin.supervised import SPEC, Site

from specctl.host.local import LocalHost
from specctl.release.clock import Operator, SystemClock, new_run_id, stamp
from specctl.release.lock import HostLock
from specctl.release.remote import Remote

pytest.importorskip("supervisor", reason="the test extra's supervisor is not installed")


def inventory(site: Site, path: Path, **knobs: str) -> Path:
    """The site as a file. Knobs become the server's environment."""
    env = {f"STANDIN_{k.upper()}": v for k, v in knobs.items()}
    server = {
        "name": "main",
        "model": "m",
        "port": site.server.port,
        "args": list(SPEC),
        "threshold": {"disable": 4},
        "timers": {"hold": 1, "start": 30, "stop": 5},
        "env": env,
    }
    host = {
        "connection": "local",
        "root": str(site.root),
        "supervisor": "supervisor",
        "servers": [server],
    }
    path.write_text(yaml.safe_dump({"hosts": {"here": host}}))
    return path


def specctl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specctl", *words],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "NO_COLOR": "1"},
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_restart_shows_the_evidence_and_verify_and_logs_agree_with_it(site: Site, tmp_path: Path) -> None:
    file = str(inventory(site, tmp_path / "hosts.yaml"))
    site.service.install(site.unit())
    done = specctl("restart", "-i", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "here main: restarted" in done.stdout
    assert "proven (5 of 5)" in done.stdout
    verified = document(specctl("verify", "-i", file, "--exercise", "--json"))
    assert verified["ok"] is True
    assert [e["code"] for e in verified["servers"][0]["evidence"]] == [
        "process-steady", "install-equal", "route-confirmed", "marker-present", "alive", "behaviour-switches",
    ]  # fmt: skip
    assert (
        "Dynamic speculation disable enabled"
        in specctl("logs", "main", "-i", file, "--since", "restart").stdout
    )
    lines = [json.loads(x) for x in specctl("logs", "-i", file, "-n", "2", "--json").stdout.splitlines()]
    assert [(x["host"], x["server"]) for x in lines] == [("here", "main")] * 2
    assert specctl("logs", "-i", file, "--since", "10m").returncode == 2
    started = specctl("start", "-i", file)
    assert (started.returncode, started.stdout) == (0, "here main: runs already\n")
    stopped = specctl("stop", "-i", file)
    assert stopped.returncode == 0
    assert "here main: stopped in" in stopped.stdout
    assert "did not run" in specctl("stop", "-i", file).stdout


def test_verify_fails_with_the_sentence_when_the_other_worker_was_overlaid(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(site.root.glob("releases/*/venv/lib/*/site-packages/sglang/srt/speculative/eagle_worker.py"))
    dist = next(site.root.glob("releases/*/dist.json"))
    kept = path.read_bytes(), dist.read_bytes()
    raw = json.loads(kept[1])
    del raw["files"]["sglang/srt/speculative/eagle_worker.py"]
    try:
        path.write_text("class EAGLEWorker:\n    pass\n")
        dist.write_text(json.dumps(raw))
        file = str(inventory(site, tmp_path / "hosts.yaml"))
        site.service.install(site.unit(hooks="v2"))
        done = specctl("restart", "-i", file)
    finally:
        path.write_bytes(kept[0])
        dist.write_bytes(kept[1])
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert "these arguments select EAGLEWorker (V1: SGLANG_ENABLE_SPEC_V2 is" in text
    assert "the installed overlay hooks only EAGLEWorkerV2" in text
    assert "not proven" in text


def test_a_server_that_dies_at_start_shows_its_last_words(site: Site, tmp_path: Path) -> None:
    file = str(inventory(site, tmp_path / "hosts.yaml"))
    site.service.install(site.unit(die_at_start="1"))
    done = specctl("restart", "-i", file)
    assert done.returncode == 1
    assert "RuntimeError: stand-in dies at start on purpose" in done.stderr


def test_a_server_that_was_never_deployed_is_said_to_be_so(site: Site, tmp_path: Path) -> None:
    file = inventory(site, tmp_path / "hosts.yaml")
    raw = yaml.safe_load(file.read_text())
    raw["hosts"]["here"]["servers"][0]["name"] = "other"
    file.write_text(yaml.safe_dump(raw))
    done = specctl("verify", "-i", str(file), "--json")
    assert done.returncode == 1
    assert document(done)["servers"][0]["evidence"][0]["code"] == "install-nothing"
    restarted = specctl("restart", "-i", str(file))
    assert restarted.returncode == 1
    assert "is not installed" in restarted.stderr


def test_a_log_cannot_drive_the_terminal_and_shows_no_api_key(site: Site, tmp_path: Path) -> None:
    file = str(inventory(site, tmp_path / "hosts.yaml"))
    log = site.root / "servers" / "main" / "server.log"
    log.write_bytes(
        b"\x1b]0;title\x07a\x1b[31mb\x1b[2Jc\rd caf\xe9\n"
        b'server_args=ServerArgs(api_key=\'s3cr\\\'et\', admin_api_key=None, x=1) {"api_key": "s3cret"}\n'
    )
    out = specctl("logs", "main", "-i", file).stdout
    assert out == (
        'abcd caf\ufffd\nserver_args=ServerArgs(api_key=***, admin_api_key=None, x=1) {"api_key": ***}\n'
    )


def test_an_unknown_server_is_refused(site: Site, tmp_path: Path) -> None:
    file = str(inventory(site, tmp_path / "hosts.yaml"))
    assert specctl("logs", "nope", "-i", file).returncode == 2


def test_a_restart_does_not_race_a_deploy(site: Site, tmp_path: Path) -> None:
    file = str(inventory(site, tmp_path / "hosts.yaml"))
    clock = SystemClock()
    remote = Remote(LocalHost("here"), str(site.root), new_run_id(clock))
    lock = HostLock(remote, Operator.here(), "deploy 0.5.9+specctl.2", stamp(clock))
    lock.acquire()
    try:
        done = specctl("restart", "-i", file)
    finally:
        lock.release()
    assert done.returncode == 5
    assert "deploy 0.5.9+specctl.2" in done.stderr
