"""Runs of the load generator: command lines, results, data sets, and the plain server's command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specctl.config.model import ServerConfig
from specctl.errors import UsageError
from specctl.tune.errors import LoadFailed, ThresholdRefused
from specctl.tune.load import Run, bench_argv, sample_from
from specctl.tune.model import Mode, Sample, pairs_of
from specctl.tune.onhost import source
from specctl.tune.plain import plain_argv
from specctl.tune.prompts import Workload, check_distinct, own, shareable
from specctl.tune.sweep import Record, carry_out, check_levels, default_levels, paired_runs, single_runs

RUN = Run(Mode.ON, "c", 8, 1, 24)
GOOD: dict[str, Any] = {
    "code": 0,
    "tail": "",
    "result": {
        "completed": 24,
        "output_throughput": 512.5,
        "median_tpot_ms": 8.5,
        "p99_itl_ms": 40.0,
        "median_ttft_ms": 90.0,
        "total_input_tokens": 2400,
        "total_output_tokens": 240,
        "concurrency": 7.5,
        "duration": 1.0,
    },
    "counters": [{"on_steps": 5}, {"on_steps": 90, "accept_length_on": 2.5}],
}


def test_a_run_says_what_was_measured() -> None:
    sample = sample_from(GOOD, RUN, "h", "s")
    assert (sample.tokens_per_s, sample.tpot_ms, sample.ttft_ms) == (512.5, 8.5, 90.0)
    assert (sample.input_tokens, sample.output_tokens, sample.accept_length) == (100.0, 10.0, 2.5)
    assert Sample.from_dict(json.loads(json.dumps(sample.as_dict()))) == sample


def test_no_accepted_length_is_told_of_a_run_without_speculation() -> None:
    raw = {**GOOD, "counters": [{"on_steps": 5}, {"on_steps": 5, "accept_length_on": 2.5}]}
    assert sample_from(raw, RUN, "h", "s").accept_length is None


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"code": 1, "tail": "Traceback\nOSError: no tokenizer"}, LoadFailed, "exit code 1"),
        ({"code": None}, LoadFailed, "did not end in time"),
        ({"result": None}, LoadFailed, "exit code 0"),
        ({"result": {**GOOD["result"], "completed": 23}}, LoadFailed, "only 23 of 24"),
        ({"result": {**GOOD["result"], "output_throughput": 0}}, LoadFailed, "24 of 24"),
        ({"refused": "can never be exceeded"}, ThresholdRefused, "can never be exceeded"),
    ],
)
def test_a_run_without_a_usable_result_is_no_sample(change: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        sample_from({**GOOD, **change}, RUN, "h", "s")


def test_the_generator_is_sglangs_own_and_on_and_off_get_the_same_prompts() -> None:
    server = ServerConfig("s", "/m", 30000, args=("--tokenizer-path", "/t"))
    work = Workload("c", ("a",), 64)
    on = bench_argv("/v/python", "http://127.0.0.1:30000", server, work, RUN, "/d.jsonl")
    off = bench_argv(
        "/v/python", "http://127.0.0.1:30000", server, work, Run(Mode.OFF, "c", 8, 1, 24), "/d.jsonl"
    )
    assert on[:3] == ("/v/python", "-m", "sglang.bench_serving")
    assert on == off
    assert on[on.index("--tokenizer") + 1] == "/t"
    assert on[on.index("--max-concurrency") + 1] == "8"
    assert on[on.index("--num-prompts") + 1] == "24"


def test_no_secret_is_on_the_generators_command_line() -> None:
    server = ServerConfig("s", "/m", 1, args=("--api-key", "hush"))
    assert "hush" not in " ".join(bench_argv("p", "u", server, Workload("c", ("a",), 4), RUN, "d"))


def test_programs_for_the_host_are_whole_and_only_the_last_one_acts() -> None:
    for names in (("switch", "ask"), ("switch", "bench")):
        text = source(*names)
        compile(text, "program", "exec")
        assert text.count('if __name__ == "__main__":') == 1


def test_on_and_off_are_neighbours_and_take_turns_in_being_first() -> None:
    runs = paired_runs(["a", "b"], (1, 2, 4), 2, 3)
    assert len(runs) == 2 * 3 * 2 * 2
    pairs = list(zip(runs[::2], runs[1::2], strict=True))
    assert all(a.key[1:] == b.key[1:] and a.mode != b.mode for a, b in pairs)
    assert [a.mode for a, _ in pairs[:4]] == [Mode.ON, Mode.OFF, Mode.ON, Mode.OFF]


@pytest.mark.parametrize("limit", [3, 13, 48, 129, 500])
def test_default_levels_can_all_be_measured_with_speculation(limit: int) -> None:
    levels = default_levels(limit)
    assert check_levels(levels, limit) == levels
    assert levels[0] == 1
    assert levels[-1] == limit - 1


@pytest.mark.parametrize("levels", [(4,), (0, 4), (4, 4), (1, 48)])
def test_levels_from_which_nothing_follows_are_refused(levels: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        check_levels(levels, 48)


def test_an_interrupted_record_goes_on_after_its_last_whole_line(tmp_path: Path) -> None:
    record = Record.open(tmp_path / "samples.jsonl")
    record.add(sample_from(GOOD, RUN, "h", "s"))
    with record.path.open("a") as handle:
        handle.write('{"mode": "on", "conte')
    again = Record.open(record.path)
    assert again.samples == record.samples
    assert again.has(RUN)
    assert not again.has(Run(Mode.OFF, "c", 8, 1, 24))


class Shaky:
    """A load whose first `failures` runs fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def run(self, run: Run, *_: Any) -> Sample:
        self.failures -= 1
        if self.failures >= 0:
            raise LoadFailed("it fell over")
        return sample_from(GOOD, run, "h", "s")


def test_one_failed_run_is_repeated_and_a_second_failure_ends_the_sweep(tmp_path: Path) -> None:
    work = {"c": Workload("c", ("a",), 4)}

    def go(failures: int) -> list[Sample]:
        record = Record.open(tmp_path / f"{failures}.jsonl")
        carry_out(Shaky(failures), [RUN], work, lambda _: None, record, lambda *_: None)  # type: ignore[arg-type]
        return record.samples

    assert len(go(1)) == 1
    with pytest.raises(LoadFailed):
        go(2)


def test_a_run_without_its_partner_makes_no_pair() -> None:
    on = sample_from(GOOD, RUN, "h", "s")
    assert pairs_of([on]) == []


def test_plain_runs_are_one_for_each_workload_and_level() -> None:
    assert len(single_runs(Mode.PLAIN, ["a", "b"], (1, 2), 3)) == 4


def test_made_prompts_are_shareable_different_and_about_as_long_as_asked() -> None:
    work = shareable(256, 50, 64)
    assert work == shareable(256, 50, 64)
    assert len(set(work.prompts)) == 50
    assert len({p[:30] for p in work.prompts}) == 50, "a shared beginning would be cached"
    assert all(150 <= len(p.split()) <= 210 for p in work.prompts)
    rows = [json.loads(line) for line in work.rows(60).splitlines()]
    assert len(rows) == 60
    assert rows[0]["conversations"][0]["content"] == work.prompts[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"prompt": "a b"}\n\n{"text": "c"}\n', ("a b", "c")),
        ('{"conversations": [{"from": "human", "value": "q"}, {"value": "a"}]}\n', ("q",)),
        ('{"messages": [{"role": "user", "content": "q"}]}\n', ("q",)),
        ("one line\nanother\n", ("one line", "another")),
        ('"quoted"\n{"prompt": 5}\n{broken\n', ("quoted",)),
    ],
)
def test_own_prompts_are_read_in_the_shapes_people_have(
    tmp_path: Path, text: str, expected: tuple[str, ...]
) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(text)
    assert own(file, 8) == Workload("chat", expected, 8)


def test_a_file_without_a_prompt_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text('{"x": 1}\n')
    with pytest.raises(UsageError, match="holds no prompt"):
        own(file, 8)
    with pytest.raises(UsageError, match="two workloads"):
        check_distinct([Workload("a", ("x",), 1), Workload("a", ("y",), 1)])


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            (
                "py",
                "--port",
                "1",
                "--speculative-algorithm",
                "EAGLE",
                "--speculative-num-steps",
                "3",
                "--tp",
                "2",
            ),
            ("py", "--port", "1", "--tp", "2", "--max-running-requests", "48"),
        ),
        (
            ("py", "--speculative-algorithm=EAGLE", "--max-running-requests", "9"),
            ("py", "--max-running-requests", "9"),
        ),
    ],
)
def test_the_plain_server_is_the_same_but_for_speculation(
    argv: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert plain_argv(argv, 48) == expected
