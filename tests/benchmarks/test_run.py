"""Whole runs against a stand-in server: a piece that ends early, a server that dies, switches, returns."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the load generator needs aiohttp (extra: test)")

from benchmarks import run
from benchmarks.experiments import ALL
from benchmarks.merge import merge
from benchmarks.report import load_pieces

STANDIN = Path(__file__).parent / "standin"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Bench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = 0

    def __call__(self, *argv: str, code: int = 0, deadline: float = 60) -> list[dict[str, Any]]:
        """Run a piece; all pieces so far."""
        self.calls += 1
        fixed = [
            "--out",
            self.root / f"out{self.calls}",
            "--work",
            self.root / "work",
            "--models",
            self.root / "m",
            "--tiny",
            self.root / "tiny",
            "--site",
            STANDIN,
            "--deadline",
            deadline,
            "--first-port",
            free_port(),
        ]
        for earlier in range(1, self.calls):
            fixed += ["--done", self.root / f"out{earlier}"]
        assert run.main(["run", *argv, *map(str, fixed)]) == code
        return self.pieces()

    def pieces(self) -> list[dict[str, Any]]:
        return load_pieces(sorted(self.root.glob("out*/*.json")))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


SERVERS = ("plain", "v1-lazy")


def plain_setup(bench: Bench, argv: Sequence[str]) -> Any:
    fixed = [
        "--out",
        "o",
        "--work",
        "w",
        "--models",
        str(bench.root / "m"),
        "--tiny",
        str(bench.root / "tiny"),
    ]
    args = run.parser().parse_args([*argv, *fixed])
    return run.make_setup(args, ALL[argv[0]])


SMALL = ("--levels", "1,4", "--output", "24", "--waves", "2", "--thresholds", "v1=2,v2=2")


def test_a_run_gives_a_row_for_each_worker_and_level(bench: Bench) -> None:
    pieces = bench("levels", *SMALL, "--reps", "2")
    result = merge(pieces)
    rows = {(r["worker"], r["concurrency"]): r for r in result["levels"]}
    assert rows.keys() == {(w, c) for w in ("EAGLEWorker", "EAGLEWorkerV2") for c in (1, 4)}
    alone, loaded = rows["EAGLEWorkerV2", 1], rows["EAGLEWorkerV2", 4]
    assert alone["repetitions"] == 2
    assert "decode_ratio" not in alone
    assert loaded["decode_ratio"] == 1
    assert result["release"] == "0.5.9+standin"
    speculated = {b["concurrency"]: b["servers"]["v1-lazy"]["accept_length"] for b in pieces[0]["blocks"]}
    assert speculated[1] == pytest.approx(3, abs=0.1)
    off = pieces[0]["blocks"][-1]["servers"]["v1-lazy"]["dynamic"]
    assert off["switches"] > 0
    assert off["off_steps"] > 0


def test_a_second_piece_does_only_what_the_first_left(bench: Bench) -> None:
    wanted = ("levels", *SMALL, "--servers", "plain,v1-static,v1-lazy", "--reps", "2")
    first = {b["id"] for p in bench("levels", *wanted[1:-1], "1") for b in p["blocks"]}
    assert len(first) == 2
    blocks = [b["id"] for p in bench(*wanted) for b in p["blocks"]]
    assert len(blocks) == len(set(blocks)) == 4
    assert len(bench(*wanted)) == 2, "nothing was left, so there is no third piece"


def test_other_thresholds_are_another_measurement(bench: Bench) -> None:
    bench("levels", "--servers", "plain,v1-static,v1-lazy", *SMALL, "--reps", "1")
    pieces = bench("levels", "--servers", "plain,v1-static,v1-lazy", *SMALL[:-1], "v1=3,v2=3", "--reps", "1")
    assert [len(p["blocks"]) for p in pieces] == [2, 2]


def test_no_block_starts_that_would_pass_the_deadline(bench: Bench) -> None:
    (piece,) = bench("levels", "--servers", "plain", "--levels", "1", "--reps", "200", deadline=12)
    assert 0 < len(piece["blocks"]) < 200


def test_kept_servers_are_used_again_and_others_are_stopped(bench: Bench) -> None:
    bench("levels", "--servers", "plain,v1-static", *SMALL, "--reps", "1", "--keep")
    before = {s["name"]: s["pid"] for s in json.loads((bench.root / "work" / "servers.json").read_text())}
    bench("sweep", "--servers", "plain,v2-static", *SMALL, "--seconds", "1", "--max-running", "4", "--keep")
    after = {s["name"]: s["pid"] for s in json.loads((bench.root / "work" / "servers.json").read_text())}
    bench("levels", "--servers", "plain", *SMALL, "--reps", "1")
    assert json.loads((bench.root / "work" / "servers.json").read_text()) == []
    assert set(after) == {"plain", "v2-static"}
    assert not Path(f"/proc/{before['v1-static']}").exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in after.values())


def test_a_server_that_does_not_start_is_told_and_the_others_are_measured(bench: Bench) -> None:
    (piece,) = bench(
        "levels", "--servers", "plain,v1-static,v1-lazy", *SMALL, "--reps", "1", "--dynamic-extra=--refuse"
    )
    assert "this flag is refused" in piece["errors"][0]
    assert [set(b["servers"]) for b in piece["blocks"]] == [{"plain", "v1-static"}] * 2


def test_a_server_that_dies_is_left_out_from_then_on(bench: Bench) -> None:
    (piece,) = bench(
        "levels", "--servers", "plain,v1-lazy", *SMALL, "--reps", "2", "--dynamic-extra=--die-at 60"
    )
    assert any("v1-lazy is gone" in e for e in piece["errors"])
    assert set(piece["blocks"][-1]["servers"]) == {"plain"}


def test_a_block_that_a_server_missed_is_done_again(bench: Bench) -> None:
    wanted = ("levels", "--servers", "plain,v1-lazy", *SMALL, "--reps", "1")
    bench(*wanted, "--dynamic-extra=--refuse")
    first = bench.pieces()
    assert [set(b["servers"]) for b in first[0]["blocks"]] == [{"plain"}] * 2
    mark = first[0]["fingerprint"]
    # the same measurement: only what is wrong with the server is mended
    for path in bench.root.glob("out1/*.json"):
        path.write_text(path.read_text().replace(mark, run.fingerprint(plain_setup(bench, wanted), SERVERS)))
    second = bench(*wanted)[-1]
    assert [set(b["servers"]) for b in second["blocks"]] == [set(SERVERS)] * 2


def test_nothing_started_is_a_failure(bench: Bench) -> None:
    bench("levels", "--servers", "v1-lazy", *SMALL, "--reps", "1", "--dynamic-extra=--refuse", code=1)


def test_a_return_compares_the_same_text_with_a_draft_that_was_never_off(bench: Bench) -> None:
    pieces = bench("return", "--servers", "v2-lazy", "--thresholds", "v1=4,v2=4", "--reps", "2")
    (row,) = merge(pieces)["returns"]
    assert row["returns"] == 8
    assert row["ratio"] == pytest.approx(1, abs=0.05)
    assert row["same_text"] == "8/8"
    assert row["step_ms"]["off"]["n"] > 50
    assert row["step_ms"]["first"]["n"] == 8


def test_a_sweep_counts_switches_and_times_streams(bench: Bench) -> None:
    pieces = bench(
        "sweep",
        "--servers",
        "plain,v2-lazy",
        "--thresholds",
        "v1=2,v2=2",
        "--seconds",
        "3",
        "--max-running",
        "8",
    )
    rows = {r["server"]: r for r in merge(pieces)["sweep"]}
    assert rows["plain"]["switches"] is None
    assert rows["v2-lazy"]["switches"] >= 2
    assert rows["plain"]["itl_p99_ms"] >= rows["plain"]["itl_p50_ms"] > 1


def test_identity_compares_plain_with_itself_first(bench: Bench) -> None:
    small = ("--levels", "4", "--output", "16", "--reps", "1")
    rows = merge(bench("identity", "--servers", "plain,v1-lazy", *small))["identity"]
    assert {r["server"]: (r["same"], r["of"]) for r in rows} == {"plain again": (16, 16), "v1-lazy": (16, 16)}


def test_starts_are_measured_one_server_at_a_time(bench: Bench) -> None:
    pieces = bench("startup", "--servers", "v2-static,v2-lazy", "--reps", "1", deadline=150)
    assert [r["starts"] for r in merge(pieces)["startup"]] == [1, 1]
