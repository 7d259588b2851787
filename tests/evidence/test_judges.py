"""Every verdict of every judge, from tables of cases: tests/cases/evidence/*.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specctl.evidence.alive import judge_alive
from specctl.evidence.behaviour import Run
from specctl.evidence.behaviour_judge import judge_behaviour
from specctl.evidence.install import Installed, judge_install
from specctl.evidence.live_change import after_live_change
from specctl.evidence.marker import judge_marker, parse_marker
from specctl.evidence.model import Evidence, Expectation, Kind, Report, Verdict
from specctl.evidence.process import judge_process
from specctl.evidence.route import judge_route
from specctl.service.protocol import LogLine, LogSlice, ServiceState

CASES = Path(__file__).parents[1] / "cases" / "evidence"
MARKER = (
    "Dynamic speculation disable enabled: worker=EAGLEWorker algorithm=EAGLE3 threshold=16 resume=14 "
    "resume_steps=4 draft_sync=lazy tp_rank=0 tp_size=1"
)
RUNNING = ServiceState("specctl-main.service", True, "active", "running", 10, "a", 0)


def expectation(raw: dict[str, Any]) -> Expectation:
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    base: dict[str, Any] = {"server": "main", "distribution": "0.5.9+specctl.1", "files": {}, "worker": None}
    return Expectation(**{**base, "url": "http://127.0.0.1:30000", **values})


def line(raw: Any) -> LogLine:
    raw = {"text": raw} if isinstance(raw, str) else raw
    return LogLine(MARKER if raw["text"] == "M" else raw["text"], None, raw.get("invocation", "a"))


def marker(case: dict[str, Any]) -> Evidence:
    log = LogSlice(
        lines=tuple(line(x) for x in case.get("lines", ())),
        where="journal",
        earlier=tuple(line(x) for x in case.get("earlier", ())),
        dropped=case.get("dropped", 0),
        complete=case.get("complete", True),
        reason=case.get("reason", ""),
        not_utf8=case.get("not_utf8", 0),
        seen=case.get("seen_lines", 100),
    )
    return judge_marker(expectation(case["expectation"]), log, base="0.5.9")


def marker_live(case: dict[str, Any]) -> Evidence:
    log = LogSlice(lines=tuple(line(x) for x in case["lines"]), where="journal", seen=100)
    wanted = expectation(case["expectation"])
    info = None if case["state"] is None else {"json": {"state": case["state"]}}
    changes = [line(x) for x in case["changes"]]
    return after_live_change(wanted, log, judge_marker(wanted, log), info, changes)


def route(case: dict[str, Any]) -> Evidence:
    return judge_route(expectation(case["expectation"]), case["spoke"], case["hooked"], where="journal")


def state(raw: dict[str, Any]) -> ServiceState:
    return ServiceState(**{**RUNNING.__dict__, **raw})


def process(case: dict[str, Any]) -> Evidence:
    before = state(case["before"]) if "before" in case else None
    samples = [state(raw) for raw in case["samples"]]
    return judge_process(before, samples, hold_s=case["hold_s"], invocation=case.get("invocation", ""))


def install(case: dict[str, Any]) -> Evidence:
    return judge_install(
        expectation(case["expectation"]), Installed(**{**case["seen_install"], **case.get("install", {})})
    )


def alive(case: dict[str, Any]) -> Evidence:
    return judge_alive(case["health"], case["generation"], url="http://127.0.0.1:30000")


def behaviour(case: dict[str, Any]) -> Evidence:
    quiet = {
        "state": "on",
        "batch": 0,
        "resume": 2,
        "switches": 0,
        "on_steps": 5,
        "off_steps": 0,
        "decode_graphs": True,
    }
    samples = [{**quiet, **raw} for raw in case["samples"]]
    raw = {k: case.get(k) for k in ("info", "info_error", "alone", "burst", "errors")}
    return judge_behaviour(expectation(case["expectation"]), Run.from_json({**raw, "samples": samples}))


JUDGES = {f.__name__: f for f in (marker, marker_live, route, process, install, alive, behaviour)}


def cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        raw = yaml.safe_load(path.read_text())
        found += [
            pytest.param(path.stem, {**raw["defaults"], **case}, id=f"{path.stem}: {case['name']}")
            for case in raw["cases"]
        ]
    return found


@pytest.mark.parametrize(("judge", "case"), cases())
def test_the_judge_gives_the_verdict_of_the_table(judge: str, case: dict[str, Any]) -> None:
    found = JUDGES[judge](case)
    assert (found.code, found.verdict.value) == (case["code"], case["verdict"])
    assert case.get("seen", "") in found.seen
    assert found.kind.value == judge.split("_")[0]
    assert found.expected
    assert found.where
    assert found.verdict is Verdict.PASS or found.hint or found.code == "process-unknown"


def test_each_kind_of_evidence_has_a_table_and_each_code_belongs_to_one_verdict() -> None:
    assert {p.stem for p in CASES.glob("*.yaml")} == set(JUDGES)
    assert {k.value for k in Kind} <= set(JUDGES)
    codes: dict[str, set[str]] = {}
    for param in cases():
        case: Any = param.values[1]
        codes.setdefault(case["code"], set()).add(case["verdict"])
    assert all(len(verdicts) == 1 for verdicts in codes.values())


def test_a_report_passes_only_when_all_of_it_passes_and_there_is_some() -> None:
    good = Evidence(Kind.ALIVE, Verdict.PASS, "alive", "", "", "")
    unsure = Evidence(Kind.MARKER, Verdict.UNKNOWN, "log-dropped", "", "", "")
    assert Report("h", "s", "r", "t", (good,)).ok
    assert not Report("h", "s", "r", "t", (good, unsure)).ok
    assert not Report("h", "s", "r", "t", ()).ok


FIELDS = ["worker=EAGLEWorker", "algorithm=EAGLE3", "threshold=16", "resume=14", "resume_steps=4",
          "draft_sync=lazy", "tp_rank=0", "tp_size=1"]  # fmt: skip


@given(
    order=st.permutations(FIELDS),
    extra=st.from_regex(r"[a-z_]{1,8}=[^\s]{1,8}", fullmatch=True),
    prefix=st.text(),
)
def test_a_marker_is_read_in_any_order_with_any_extra_field_and_prefix(
    order: list[str], extra: str, prefix: str
) -> None:
    if extra.split("=")[0] in {f.split("=")[0] for f in FIELDS}:
        return
    found = parse_marker(f"{prefix} Dynamic speculation disable enabled: {' '.join([extra, *order])}")
    assert found is not None
    assert (found.worker, found.threshold, found.resume, found.resume_steps) == ("EAGLEWorker", 16, 14, 4)
    assert (found.draft_sync, found.tp_rank, found.tp_size) == ("lazy", 0, 1)


@given(text=st.text())
def test_any_text_is_a_marker_or_none(text: str) -> None:
    assert parse_marker(text) is None
    parse_marker("Dynamic speculation disable enabled:" + text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["state", "batch"]), inner),
    max_leaves=8,
)
records = st.fixed_dictionaries(
    {
        "info": st.fixed_dictionaries({"state": json_values, "limit": json_values, "device": json_values}),
        "samples": st.lists(st.dictionaries(st.sampled_from(["state", "batch", "off_steps"]), json_values)),
        "alone": st.lists(st.none() | st.text(max_size=5), max_size=3),
        "burst": st.lists(st.none() | st.text(max_size=5), max_size=3),
        "which": st.lists(json_values, max_size=3),
        "load": json_values,
        "why_own": json_values,
    }
)


@given(raw=json_values | records)
def test_any_record_of_an_exercise_is_judged(raw: Any) -> None:
    wanted = expectation({"worker": "EAGLEWorker", "threshold": 4})
    assert judge_behaviour(wanted, Run.from_json(raw)).kind is Kind.BEHAVIOUR
