"""`specctl tune` end to end: real SGLang on the CPU, its own load generator, and a planted crossover."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rig import environment
from standin.supervised import free_port, healthy, until

from specctl.config.inventory import load_inventory
from specctl.host.local import LocalHost
from specctl.release.units import unit_of
from specctl.service.factory import service_for
from tune.commands import document, specctl
from tune.slow_draft import LAST_GOOD

pytestmark = [pytest.mark.rig, pytest.mark.slow]
HOOK = Path(__file__).parent / "slow_draft.py"


def needs() -> str | None:
    """Why this cannot run here, or None."""
    if reason := environment.why_not():
        return reason
    if not (environment.bench() / "made-from").exists():
        return f"what sglang.bench_serving imports is not there (run `make rig`): {environment.bench()}"
    return None


def path() -> dict[str, str]:
    """The environment of every Python of the rig, with the load generator's packages."""
    folders = [environment.SHIMS, environment.tree("dist"), environment.bench()]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "PYTHONWARNINGS": "ignore",
    }


@dataclass
class Site:
    inventory: Path
    port: int
    root: Path


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A real server under supervisor, laid out as a deploy leaves it."""
    if reason := needs():
        pytest.skip(reason)
    root = tmp_path_factory.getbasetemp().parent / f"rg{os.getpid()}"
    bin_ = root / "releases/0.5.9+specctl.1-0badcafe/venv/bin"
    bin_.mkdir(parents=True)
    (root / "servers/main").mkdir(parents=True)
    (root / "servers/main/current").symlink_to("../../releases/0.5.9+specctl.1-0badcafe")
    (bin_ / "python").write_text(
        f"""#!/bin/sh
export PYTHONPATH="{path()["PYTHONPATH"]}"
# the load generator starts for every run: torch and pandas are compiled once and not each time
export PYTHONPYCACHEPREFIX="{environment.HOME / "pycache"}"
unset PYTHONDONTWRITEBYTECODE
exec {environment.python()} -W ignore "$@"
"""
    )
    (bin_ / "python").chmod(0o755)
    daemon = root / "supervisor/venv/bin/supervisord"
    daemon.parent.mkdir(parents=True)
    daemon.write_text(f'#!/bin/sh\nexec {sys.executable} -m supervisor.supervisord "$@"\n')
    daemon.chmod(0o755)
    port = free_port()
    file = root / "hosts.yaml"
    file.write_text(inventory(root, port))
    config = load_inventory(file, environ={}).hosts[0]
    service = service_for(LocalHost("here"), config, config.servers[0])
    service.install(unit_of(config, config.servers[0]))
    service.start()
    until(lambda: healthy(port), 240)
    yield Site(file, port, root)
    print((root / "servers/main/server.log").read_text(errors="replace")[-8000:])  # shown when a test failed
    service.stop(30)
    pid = root / "supervisor/supervisord.pid"
    os.kill(int(pid.read_text()), 15)
    until(lambda: not pid.exists())
    shutil.rmtree(root, ignore_errors=True)


def inventory(root: Path, port: int) -> str:
    models = environment.MODELS
    args = [
        *("--device", "cpu", "--dtype", "float32", "--attention-backend", "triton"),
        *("--sampling-backend", "pytorch", "--grammar-backend", "none", "--disable-cuda-graph"),
        *("--mem-fraction-static", "0.5", "--max-total-tokens", "8192", "--max-running-requests", "13"),
        *("--context-length", "1024", "--random-seed", "0", "--skip-server-warmup"),
        "--sleep-on-idle",  # or an idle scheduler takes a core from the load generator
        *("--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", str(models / "eagle_good")),
        *(
            "--speculative-num-steps",
            "3",
            "--speculative-eagle-topk",
            "1",
            "--speculative-num-draft-tokens",
            "4",
        ),
    ]
    return f"""hosts:
  here:
    connection: local
    root: {root}
    supervisor: supervisor
    servers:
      - name: main
        model: {models / "target"}
        port: {port}
        env: {{RIG_HOOKS: "{HOOK}", SGLANG_ENABLE_SPEC_V2: "false", TMPDIR: "{root}"}}
        timers: {{start: 240, hold: 1}}
        threshold: {{disable: 10}} # a guess
        args: {json.dumps(args)}
"""


def prompts(path: Path, tokens: int, seed: int) -> Path:
    """The rig's model knows the words t2 to t511."""
    rng = random.Random(seed)
    rows = (" ".join(f"t{rng.randrange(2, 512)}" for _ in range(tokens)) for _ in range(40))
    path.write_text("".join(json.dumps({"prompt": row}) + "\n" for row in rows))
    return path


def live(site: Site) -> dict[str, Any]:
    seen = document(specctl("threshold", "get", "-i", str(site.inventory), "--json"))["servers"][0]
    assert seen["live"], seen
    return dict(seen["live"])


@pytest.mark.timeout(1800)
def test_the_threshold_is_the_planted_crossover_and_it_is_live_and_kept(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["tune", "main", "-i", str(site.inventory), "--levels", "2,5,6,10", "--output-len", "24"]
    words += ["--dataset", str(prompts(tmp_path / "short.jsonl", 16, 1))]
    words += ["--dataset", str(prompts(tmp_path / "long.jsonl", 96, 2))]
    # the two data sets serve as repetitions of each other
    words += ["--repetitions", "1", "--waves", "1", "--out", str(out), "--yes"]
    argv = [sys.executable, "-m", "specctl", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((out / "result.json").read_text())
    assert result["crossover"]["verdict"] == "crosses", result["crossover"]
    assert abs(result["proposal"]["threshold"] - LAST_GOOD) <= 1, result["crossover"]
    assert set(result["by_context"]) == {"short", "long"}
    assert {s["mode"] for s in result["samples"]} == {"on", "off", "dynamic", "plain"}
    # on a machine with other work the scatter decides what is said, but something is, with its number
    assert result["plain_check"]["verdict"] != "not checked"
    assert 0.7 < result["plain_check"]["ratio"] < 1.4, result["plain_check"]
    assert result["plain_check"]["sentence"] in done.stdout
    assert all(s["input_tokens"] > 90 for s in result["samples"] if s["context"] == "long")
    assert live(site)["threshold"] == result["proposal"]["threshold"]
    assert f"disable: {result['proposal']['threshold']}" in site.inventory.read_text()
    assert "# a guess" in site.inventory.read_text()
    keep = os.environ.get("SPECCTL_KEEP_REPORT")
    if keep:
        shutil.copytree(out, keep, dirs_exist_ok=True)


def test_a_live_change_that_the_server_refuses_comes_with_its_own_reason(site: Site) -> None:
    file = str(site.inventory)
    before = live(site)
    done = specctl("threshold", "set", "main", "7", "--resume", "5", "--dwell", "9", "-i", file)
    assert done.returncode == 0, done.stderr
    assert live(site) == {"threshold": 7, "resume": 5, "resume_steps": 9} != before
    dead = specctl("threshold", "set", "main", "13", "-i", file)
    assert dead.returncode == 2
    assert "at most 13 requests at once" in dead.stderr
    assert live(site)["threshold"] == 7
    killed = specctl("threshold", "set", "main", "0", "-i", file)
    assert killed.returncode == 0, killed.stderr
    assert "threshold 0, resume 0" in killed.stdout
