"""`specctl tune` end to end on a stand-in server whose draft costs more the more requests run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from standin.supervised import Site, until

from tune.commands import document, specctl, started

pytest.importorskip("supervisor", reason="the test extra's supervisor is not installed")
pytest.importorskip("matplotlib", reason="the tune extra's matplotlib is not installed")

# On: two tokens in step + draft * batch; off: one in step. They cross where draft * batch = step: at 8.
STEP, DRAFT, CROSSING = 0.04, 0.005, 8.0
FEW = ("--output-len", "16", "--repetitions", "2", "--waves", "1", "--context", "32")


def live(file: str) -> dict[str, Any]:
    found: dict[str, Any] = document(specctl("threshold", "get", "-i", file, "--json"))["servers"][0]["live"]
    return found


def test_the_planted_crossover_is_found_shown_written_and_set(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path, step_s=str(STEP), draft_s=str(DRAFT))
    out = tmp_path / "out"
    words = ("tune", "main", "-i", file, "--levels", "1,4,12,24", *FEW, "--plain-boot", "--out", str(out))
    done = specctl(*words, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((out / "result.json").read_text())
    assert result["crossover"]["verdict"] == "crosses"
    assert result["crossover"]["at"] == pytest.approx(CROSSING, rel=0.3)
    assert 5 <= result["proposal"]["threshold"] <= 10
    modes = {s["mode"] for s in result["samples"]}
    assert modes == {"on", "off", "dynamic", "plain"}
    assert result["plain_check"]["ratio"] == pytest.approx(1.0, abs=0.1)
    assert f"threshold {result['proposal']['threshold']}" in done.stdout
    assert live(file)["threshold"] == result["proposal"]["threshold"]
    assert f"+          disable: {result['proposal']['threshold']} # found by hand" in done.stderr
    assert f"disable: {result['proposal']['threshold']} # found by hand" in Path(file).read_text()
    assert (out / "throughput.png").read_bytes().startswith(b"\x89PNG")
    text = (out / "report.html").read_text()
    assert "<svg" in text
    assert "http" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    site.service.restart(10, port=site.server.port)
    until(lambda: bool(specctl("threshold", "get", "-i", file, "--json").stdout), 30)


def test_ctrl_c_keeps_the_runs_puts_the_thresholds_back_and_the_same_command_goes_on(
    site: Site, tmp_path: Path
) -> None:
    file = started(site, tmp_path, step_s="0.02", draft_s="0.005")
    before, out = live(file), tmp_path / "out"
    words = ["tune", "main", "-i", file, "--levels", "1,2", *FEW, "--no-dynamic", "--no-plots", "--no-apply"]
    argv = [sys.executable, "-m", "specctl", *words, "--out", str(out)]
    log = tmp_path / "log"
    with log.open("w") as handle:
        process = subprocess.Popen(argv, stdout=handle, stderr=handle, env={**os.environ, "NO_COLOR": "1"})
    samples = out / "samples.jsonl"
    until(lambda: samples.exists() and len(samples.read_text().splitlines()) >= 2, 120)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, log.read_text()
    kept = samples.read_text()
    assert "are kept in" in log.read_text()
    assert live(file) == before
    assert not list((site.root / "lock").glob("*")), "the host stayed locked"
    done = specctl(*words, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert samples.read_text().startswith(kept)
    assert len(samples.read_text().splitlines()) == 2 * 2 * 2
    assert live(file) == before


def test_a_generator_that_fails_says_its_last_words_and_leaves_the_server_as_it_was(
    site: Site, tmp_path: Path
) -> None:
    file = started(site, tmp_path)
    before = live(file)
    bench = next(site.root.glob("releases/*/venv/lib/*/site-packages/sglang/bench_serving.py"))
    kept = bench.read_bytes()
    try:
        bench.unlink()
        bench.write_text("raise SystemExit('OSError: no tokenizer there')\n")
        done = specctl("tune", "main", "-i", file, *FEW, "--no-plots", "--out", str(tmp_path / "out"))
    finally:
        bench.unlink()
        bench.write_bytes(kept)
    assert done.returncode == 1
    assert "no tokenizer there" in done.stderr
    assert live(file) == before


def test_levels_that_can_never_speculate_are_refused(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path)
    done = specctl("tune", "main", "-i", file, "--levels", "1,48", "--no-plots", "--out", str(tmp_path / "o"))
    assert done.returncode == 2
    assert "at most 48 run" in done.stderr
    assert not (tmp_path / "o").exists()
