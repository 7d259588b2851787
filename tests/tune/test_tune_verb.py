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
from standin.supervised import Site, healthy, until

from tune.commands import document, specctl, started

pytest.importorskip("supervisor", reason="the test extra's supervisor is not installed")
pytest.importorskip("matplotlib", reason="the tune extra's matplotlib is not installed")

# On: two tokens in step + draft * batch; off: one in step. They cross where draft * batch = step: at 8.
STEP, DRAFT, CROSSING = 0.04, 0.005, 8.0
FEW = ("--output-len", "16", "--repetitions", "2", "--waves", "1", "--context", "32")


def begun(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("w") as handle:
        return subprocess.Popen(
            [sys.executable, "-m", "specctl", *words],
            stdout=handle,
            stderr=handle,
            env={**os.environ, "NO_COLOR": "1"},
        )


def live(file: str) -> dict[str, Any]:
    found: dict[str, Any] = document(specctl("threshold", "get", "-i", file, "--json"))["servers"][0]["live"]
    return found


def test_the_planted_crossover_is_found_shown_written_and_set(site: Site, tmp_path: Path) -> None:
    file = started(site, tmp_path, step_s=str(STEP), draft_s=str(DRAFT))
    out = tmp_path / "out"
    words = ("tune", "main", "-i", file, "--levels", "1,4,12,24", *FEW, "--out", str(out))
    done = specctl(*words, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((out / "result.json").read_text())
    assert result["crossover"]["verdict"] == "crosses"
    assert result["crossover"]["at"] == pytest.approx(CROSSING, rel=0.3)
    assert 5 <= result["proposal"]["threshold"] <= 10
    modes = {s["mode"] for s in result["samples"]}
    assert modes == {"on", "off", "dynamic", "plain"}
    assert result["plain_check"]["ratio"] == pytest.approx(1.0, abs=0.1)
    assert result["plain_check"]["sentence"] in done.stdout, "--yes lets the server be restarted"
    assert "plain tok/s" in done.stdout
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
    log = tmp_path / "log"
    process = begun([*words, "--out", str(out)], log)
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


def parts(site: Site) -> list[bytes]:
    """The unit's files as they lie there."""
    return [Path(f.path).read_bytes() for f in site.service.files(site.unit())]


def test_a_server_that_nobody_allowed_to_restart_is_not_and_everything_says_so(
    site: Site, tmp_path: Path
) -> None:
    file = started(site, tmp_path, step_s="0.005")
    pid, out = site.service.state().main_pid, tmp_path / "out"
    words = ("tune", "main", "-i", file, "--levels", "1,2", *FEW, "--no-dynamic", "--no-plots", "--no-apply")
    for more, why in (((), "nobody could be asked"), (("--no-plain-boot",), "--no-plain-boot was given")):
        done = specctl(*words, *more, "--out", str(out))
        assert done.returncode == 0, done.stderr
        said = f"off against a plain server: NOT CHECKED, {why}"
        assert said in done.stdout
        assert "Off against a plain server: NOT CHECKED" in (out / "report.html").read_text()
        check = json.loads((out / "result.json").read_text())["plain_check"]
        assert (check["verdict"], check["ratio"]) == ("not checked", None)
        assert check["sentence"].startswith(said)
    assert site.service.state().main_pid == pid


class Plain:
    """A sweep that has reached its plain server, started by itself so that it can be interrupted."""

    def __init__(self, site: Site, tmp_path: Path) -> None:
        self.site, self.out, self.log = site, tmp_path / "out", tmp_path / "log"
        self.file = started(site, tmp_path, step_s="0.02")
        # what is live is not what the inventory says
        assert specctl("threshold", "set", "main", "6", "--resume", "5", "-i", self.file).returncode == 0
        self.before, self.unit = live(self.file), parts(site)
        words = ["tune", "main", "-i", self.file, "--levels", "1,2", *FEW, "--no-dynamic", "--no-plots"]
        self.process = begun([*words, "--plain-boot", "--no-apply", "--out", str(self.out)], self.log)
        samples = self.out / "samples.jsonl"
        until(lambda: samples.exists() and '"plain"' in samples.read_text(), 180)
        assert parts(site) != self.unit
        assert b"--speculative" not in b"".join(parts(site))

    def check(self) -> None:
        """The unit and the thresholds are what they were."""
        assert parts(self.site) == self.unit
        assert live(self.file) == self.before


@pytest.mark.slow
def test_ctrl_c_twice_on_the_plain_server_still_brings_the_speculating_one_back(
    site: Site, tmp_path: Path
) -> None:
    plain = Plain(site, tmp_path)
    plain.process.send_signal(signal.SIGINT)
    until(lambda: "restarting as it was" in plain.log.read_text(), 60)
    plain.process.send_signal(signal.SIGINT)
    assert plain.process.wait(120) == 130, plain.log.read_text()
    plain.check()
    assert not list((site.root / "lock").glob("*")), "the host stayed locked"
    assert not (site.root / "deadman/armed.json").exists()
    assert json.loads((plain.out / "result.json").read_text())["plain_check"]["levels"]


@pytest.mark.slow
def test_an_operator_lost_on_the_plain_server_is_replaced_by_the_host_itself(
    site: Site, tmp_path: Path
) -> None:
    plain = Plain(site, tmp_path)
    plain.process.kill()
    plain.process.wait()
    lease, fired = site.root / "lock/lease.json", site.root / "deadman/fired.json"

    def acted() -> bool:
        # instead of waiting until its promise is over; a renewal may still be under way
        lease.write_text(json.dumps({**json.loads(lease.read_text()), "until": 0}))
        return fired.exists()

    until(acted, 240)
    until(lambda: healthy(site.server.port), 60)
    plain.check()
    assert "undo by the host" in (site.root / "history.jsonl").read_text()


def test_a_threshold_that_is_refused_live_at_the_end_is_rolled_out_by_a_restart(
    site: Site, tmp_path: Path
) -> None:
    # each run sets and puts back; the sweep ends with one more change
    file = started(site, tmp_path, step_s=str(STEP), draft_s=str(DRAFT), live_changes=str(2 * 4 + 1))
    pid = site.service.state().main_pid
    words = ("tune", "main", "-i", file, "--levels", "2,24", "--context", "32", "--output-len", "16")
    more = ("--repetitions", "1", "--waves", "1", "--no-dynamic", "--no-plain-boot", "--no-plots", "--json")
    done = specctl(*words, *more, "--yes", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "takes no more changes, on purpose" in done.stderr
    result = document(done)
    assert result["applied"] == "restart"
    assert live(file)["threshold"] == result["proposal"]["threshold"]
    assert site.service.state().main_pid != pid
