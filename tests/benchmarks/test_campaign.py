"""A measurement in pieces: nothing in it is mistyped, and time that runs out costs the last pieces only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import run
from benchmarks.campaign import CAMPAIGNS, Piece, main
from benchmarks.crew import MANNERS
from benchmarks.crew import server as server_of
from benchmarks.experiments import ALL

PIECES = [pytest.param(p, id=f"{name}-{p.words}") for name, pieces in CAMPAIGNS.items() for p in pieces]
FIXED = ("--out", "o", "--work", "w", "--models", "m")


@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_is_a_command_that_run_takes(piece: Piece) -> None:
    args = run.parser().parse_args([*piece.argv, *FIXED])
    assert set(args.experiment) <= set(ALL)
    for server in args.servers:
        worker, _, manner = server.partition("-")
        assert server == "plain" or (worker in ("v1", "v2") and manner in MANNERS)


@pytest.mark.parametrize("part", [name for name in CAMPAIGNS if name != "h200"])
def test_a_part_measures_nothing_that_the_whole_lacks(part: str) -> None:
    assert set(CAMPAIGNS[part]) <= set(CAMPAIGNS["h200"])


def test_the_plain_server_goes_on_from_one_worker_to_the_other() -> None:
    found = set()
    for name in ("h200-v1", "h200-v2"):
        args = run.parser().parse_args([*CAMPAIGNS[name][0].argv, *FIXED])
        assert args.keep
        plain = server_of("plain", run.make_setup(args, ALL[args.experiment[0]]))
        found.add((plain.args, tuple(plain.env.items())))
    assert len(found) == 1


def test_pieces_behind_each_other_that_share_servers_share_their_settings() -> None:
    """Else they would be started again, a minute each time."""
    args = [run.parser().parse_args([*p.argv, *FIXED]) for p in CAMPAIGNS["h200-v2"]]
    setups = [run.make_setup(a, ALL[a.experiment[0]]) for a in args]
    assert all(server_of(n, s) == server_of(n, setups[0]) for s in setups for n in args[0].servers)
    assert {a.servers for a in args} == {args[0].servers}


class Runs:
    """Takes pieces, each of which lasts `seconds`."""

    def __init__(self, seconds: float, codes: Sequence[int] = ()) -> None:
        self.now, self.seconds, self.codes = 100.0, seconds, list(codes)
        self.seen: list[tuple[str, float]] = []

    def __call__(self, argv: Sequence[str]) -> int:
        args = run.parser().parse_args(list(argv))
        self.seen.append((args.experiment[0], args.deadline))
        self.now += self.seconds
        return self.codes.pop(0) if self.codes else 0


def test_each_piece_gets_what_time_is_left_and_the_rest_is_left_for_the_next_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = Runs(seconds=100)
    assert main(["h200", "--deadline", "250", *FIXED], runs, lambda: runs.now) == 0
    assert runs.seen == [("levels", 250), ("long", 150)]
    assert capsys.readouterr().out.count("not begun, 50 s left") == len(CAMPAIGNS["h200"]) - 2


def test_a_piece_that_breaks_does_not_take_the_others_with_it() -> None:
    class Breaks(Runs):
        def __call__(self, argv: Sequence[str]) -> int:
            super().__call__(argv)
            if len(self.seen) == 1:
                raise OSError("no space left on device")
            return 0

    runs = Breaks(seconds=1)
    assert main(["h200", *FIXED], runs, lambda: runs.now) == 1
    assert len(runs.seen) == len(CAMPAIGNS["h200"])


def test_a_piece_that_failed_is_not_hidden_by_the_ones_after_it() -> None:
    runs = Runs(seconds=1, codes=[0, 1])
    assert main(["h200", *FIXED], runs, lambda: runs.now) == 1
    assert len(runs.seen) == len(CAMPAIGNS["h200"])
