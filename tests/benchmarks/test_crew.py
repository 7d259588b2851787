"""Which server a name means, and that the comparison is fair."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import crew

SETUP = crew.eight_b(Path("m"))


def option(args: tuple[str, ...], name: str) -> str | None:
    return args[args.index(name) + 1] if name in args else None


def test_plain_has_no_draft_and_no_switch() -> None:
    assert not any(a.startswith("--speculative") for a in crew.server("plain", SETUP).args)


def test_plain_without_overlap_differs_from_plain_in_that_alone() -> None:
    plain, normal = (crew.server(n, SETUP) for n in ("plain", "plain-normal"))
    assert normal.args == (*plain.args, "--disable-overlap-schedule")
    assert normal.env == plain.env
    assert normal.role != plain.role


def test_every_server_draws_accepted_lengths_with_little_noise() -> None:
    for name in ("v1-static", "v2-lazy"):
        env = crew.server(name, SETUP).env
        assert env["SGLANG_SIMULATE_ACC_LEN"] == "2.5"
        assert env["SGLANG_SIMULATE_ACC_METHOD"] == "match-expected"
    assert "SGLANG_SIMULATE_ACC_METHOD" not in crew.server("v2-lazy", crew.tiny(Path("m"))).env


@pytest.mark.parametrize("worker", ["v1", "v2"])
def test_dynamic_differs_from_static_in_the_switch_alone(worker: str) -> None:
    static, dynamic = (crew.server(f"{worker}-{m}", SETUP) for m in ("static", "lazy"))
    assert dynamic.env == static.env
    assert dynamic.args[: len(static.args)] == static.args
    assert option(dynamic.args, "--speculative-disable-batch-threshold") == str(SETUP.thresholds[worker])


def test_the_workers_differ_in_the_variable_that_routes_them() -> None:
    routes = [crew.server(f"{w}-static", SETUP).env["SGLANG_ENABLE_SPEC_V2"] for w in ("v1", "v2")]
    assert routes == ["0", "1"]


def test_always_off_is_a_threshold_of_zero() -> None:
    assert option(crew.server("v2-off", SETUP).args, "--speculative-disable-batch-threshold") == "0"


def test_every_server_captures_the_threshold_and_every_level() -> None:
    setup = crew.eight_b(Path("m"), thresholds={"v1": 20, "v2": 40})
    assert {20, 40, *crew.LEVELS} <= set(setup.graphs)


@pytest.mark.parametrize("name", ["v3-lazy", "v1", "v1-hot", "static", "plain-lazy", ""])
def test_an_unknown_server_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no server is called"):
        crew.server(name, SETUP)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_rotation_puts_every_server_in_every_place_equally_often(count: int) -> None:
    names = [f"s{i}" for i in range(count)]
    orders = [crew.rotation(names, turn) for turn in range(2 * count)]
    for place in range(count):
        seen = [o[place] for o in orders]
        assert all(seen.count(n) == 2 for n in names)


def test_the_draft_shape_matches_the_target(tmp_path: Path) -> None:
    import json

    crew.write_shapes(tmp_path)
    target, draft = (json.loads((tmp_path / n / "config.json").read_text()) for n in ("8b", "8b-eagle3"))
    assert {k for k in target if target[k] != draft.get(k)} == {"architectures", "num_hidden_layers"}
