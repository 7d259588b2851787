"""The script that runs on the GPU machine: nothing measured is lost between its calls, or with a late one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the load generator needs aiohttp (extra: test)")

from benchmarks.serving import kill_groups

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

pytestmark = pytest.mark.skipif(
    not all(shutil.which(x) for x in ("bash", "xz", "tar", "timeout")), reason="the script needs them"
)


class Machine:
    """A folder that plays the machine: what the script keeps is below it, and `python3` is this Python."""

    def __init__(self, root: Path) -> None:
        self.root, self.scratch, self.archives = root, root / "scratch", root / "archives"
        (root / "bin").mkdir()
        (root / "bin" / "python3").symlink_to(sys.executable)
        (self.archives / "tiny").mkdir(parents=True)
        self.archive("site", HERE / "conftest.py")
        self.archive("sglang", HERE / "standin" / "sglang")

    def archive(self, name: str, what: Path) -> None:
        with tarfile.open(self.archives / f"{name}.tar.xz", "w:xz") as t:
            t.add(what, f"site/{what.name}")

    def call(self, out: str, *argv: str, limit_s: int = 100) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "PATH": f"{self.root / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p),
            "BENCH_SCRATCH": str(self.scratch),
            "BENCH_LIMIT_S": str(limit_s),
        }
        script = [
            "bash",
            str(ROOT / "benchmarks" / "on_machine.sh"),
            str(self.archives),
            str(self.root / out),
        ]
        fixed = ["--servers", "plain", "--output", "24", "--first-port", "36100", "--python", sys.executable]
        done = subprocess.run(
            [*script, *argv, *fixed], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        print(done.stdout, done.stderr)
        return done

    def held(self, out: str, archive: str) -> set[str]:
        with tarfile.open(self.root / out / f"{archive}.tar.xz") as t:
            return {Path(m.name).name.partition("-")[0] for m in t if m.isfile()}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    running = made.scratch / "work" / "servers.json"
    if running.exists():
        kill_groups([entry["pid"] for entry in json.loads(running.read_text())])


def test_a_call_goes_on_behind_the_one_before_it_and_brings_all_pieces(machine: Machine) -> None:
    levels = ("levels", "--levels", "1", "--reps", "1", "--waves", "1", "--keep")
    assert machine.call("one", *levels).returncode == 0
    assert machine.held("one", "pieces") == {"levels"}
    done = machine.call("two", "levels", "hold", *levels[1:], "--seconds", "1", "--thresholds", "plain=2")
    assert done.returncode == 0
    assert "levels: 1 of 1 blocks to do" in done.stdout, "other thresholds are another measurement"
    third = machine.call("three", *levels[:-1])
    assert "levels: 0 of 1 blocks to do" in third.stdout
    assert machine.held("three", "pieces") == {"levels", "hold"}
    assert len([*(machine.root / "three").iterdir()]) == 2, "however many pieces, two files travel"
    assert json.loads((machine.scratch / "work" / "servers.json").read_text()) == []


def test_a_call_that_is_late_still_brings_what_it_has(machine: Machine) -> None:
    late = ("levels", "sweep", "--levels", "1", "--reps", "1", "--waves", "1", "--seconds", "90", "--keep")
    done = machine.call("out", *late, "--deadline", "500", limit_s=15)
    assert done.returncode == 124
    assert "levels" in machine.held("out", "pieces")
    assert machine.held("out", "logs") == {"plain.log"}
