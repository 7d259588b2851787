"""Rules about a server's arguments: the traps that people fell into, by the reports' numbers."""

from __future__ import annotations

from typing import Any

import pytest
from config.builders import EAGLE3_ARGS, make_host, make_server

from specctl.config.command import server_env
from specctl.config.model import ServerConfig, Target, ThresholdPolicy, Timers
from specctl.doctor.model import Check, Verdict
from specctl.doctor.server import check_server
from specctl.evidence.expectation import launch_args
from specctl.host.facts import ModelFact, ServerFact
from specctl.route.predict import predict

from .builders import GIB, gpu, make_facts

V2 = {"SGLANG_ENABLE_SPEC_V2": "1"}
LIMIT = ("--max-running-requests", "128")
BLACKWELL = gpu(name="RTX PRO 6000", compute="12.0", memory_mib=97_887)


def checks(server: ServerConfig, *, host: dict[str, Any] | None = None, **facts: Any) -> list[Check]:
    """All findings about a server on 0.5.9."""
    route = predict("0.5.9", launch_args(server), server_env(server), architecture="LlamaForCausalLM")
    return check_server(make_host("gpu-01", server, **(host or {})), server, make_facts(**facts), route)


def draft(architecture: str, **changes: Any) -> tuple[ModelFact, ...]:
    target = ModelFact("/models/target", "/x", {"architectures": ["LlamaForCausalLM"]})
    return (target, ModelFact("/models/draft", "/y", {"architectures": [architecture]}, **changes))


def args(
    *more: str, algorithm: str = "EAGLE3", topk: str = "1", path: str | None = "/models/draft"
) -> tuple[str, ...]:
    given = ["--speculative-algorithm", algorithm, *more]
    given += [
        "--speculative-num-steps",
        "3",
        "--speculative-eagle-topk",
        topk,
        "--speculative-num-draft-tokens",
        "4",
    ]
    return (*given, *(("--speculative-draft-model-path", path) if path else ()))


def test_a_good_server_is_ok_in_everything() -> None:
    found = checks(make_server(args=(*EAGLE3_ARGS, *LIMIT)))
    assert {c.verdict for c in found} == {Verdict.OK}
    assert {c.server for c in found} == {"main"}
    assert {"route", "request-limit", "model", "draft", "draft-kind"} == {c.name for c in found}


@pytest.mark.parametrize(
    ("report", "server", "facts", "name", "verdict", "seen"),
    [
        (
            "34290",
            {"threshold": ThresholdPolicy(48)},
            {},
            "request-limit",
            Verdict.FAIL,
            "at most 48 requests",
        ),
        ("33199", {"threshold": ThresholdPolicy(16)}, {}, "request-limit", Verdict.WARN, "to 48 requests"),
        ("13352", {"args": args(topk="4"), "env": V2}, {}, "route", Verdict.FAIL, "topk"),
        ("14077", {"args": args(topk="2"), "env": V2}, {}, "route", Verdict.FAIL, "topk"),
        ("17349", {"env": V2}, {}, "logprobs", Verdict.OK, "known-faults repairs"),
        (
            "6875",
            {"args": args("--mem-fraction-static", "0.95")},
            {"gpus": (gpu(memory_mib=80_000),), "models": draft("LlamaForCausalLMEagle3", bytes=4 * GIB)},
            "memory",
            Verdict.WARN,
            "leaves 4000 MiB; draft and its graphs take about 6144 MiB",
        ),
        (
            "6875",
            {"args": args("--mem-fraction-static=0.85")},
            {"gpus": (gpu(memory_mib=80_000),), "models": draft("LlamaForCausalLMEagle3", bytes=4 * GIB)},
            "memory",
            Verdict.OK,
            "leaves 12000 MiB",
        ),
        ("3395", {"timers": Timers(start_s=60)}, {}, "start-time", Verdict.WARN, "60 s"),
        (
            "21272",
            {"args": args(algorithm="EAGLE")},
            {},
            "draft-kind",
            Verdict.FAIL,
            "made for EAGLE3; with EAGLE none of its tokens are accepted",
        ),
        (
            "21272",
            {"args": args(algorithm="NEXTN")},
            {},
            "draft-kind",
            Verdict.FAIL,
            "made for EAGLE3",
        ),
        (
            "21272 the other way round",
            {},
            {"models": draft("LlamaForCausalLMEagle")},
            "draft-kind",
            Verdict.WARN,
            "LlamaForCausalLMEagle",
        ),
        ("36528", {"args": args(path=None)}, {}, "draft", Verdict.FAIL, "EAGLE3 without a draft model"),
        ("15122", {}, {"gpus": (BLACKWELL,)}, "attention", Verdict.WARN, "no attention backend is named"),
        (
            "15122",
            {"args": args("--attention-backend", "trtllm_mha")},
            {"gpus": (BLACKWELL,)},
            "attention",
            Verdict.FAIL,
            "trtllm_mha runs on compute 10 only",
        ),
        (
            "15122",
            {"args": args("--attention-backend", "fa3")},
            {"gpus": (BLACKWELL,)},
            "attention",
            Verdict.FAIL,
            "fa3 does not run on RTX PRO 6000",
        ),
        ("", {"model": "/models/none"}, {}, "model", Verdict.FAIL, "/models/none is not on the host"),
        ("", {"model": "org/name"}, {}, "model", Verdict.WARN, "not in the host's cache"),
        ("", {"gpus": (0, 3)}, {}, "gpus", Verdict.FAIL, "no GPU 3"),
        ("", {}, {"gpus": (gpu(used_mib=70_000),)}, "gpus", Verdict.WARN, "70000 MiB in use"),
        ("", {}, {"ports": (22, 30000)}, "port", Verdict.FAIL, "port 30000"),
        ("", {"args": ("--no-such-flag",)}, {}, "route", Verdict.FAIL, "--no-such-flag"),
    ],
)
def test_a_trap_is_seen(
    report: str, server: dict[str, Any], facts: dict[str, Any], name: str, verdict: Verdict, seen: str
) -> None:
    (check,) = [c for c in checks(make_server(**server), **facts) if c.name == name]
    assert check.verdict is verdict, check
    assert seen in check.seen
    assert bool(check.hint) == (verdict is not Verdict.OK)


def test_logprobs_on_v2_are_deadly_without_the_repair() -> None:
    server = make_server(env=V2)
    (check,) = [c for c in checks(server, host={"overlays": ("dynamic-disable",)}) if c.name == "logprobs"]
    assert check.verdict is Verdict.FAIL
    assert not [c for c in checks(make_server(), host={"overlays": ()}) if c.name == "logprobs"]


def test_a_named_backend_satisfies_blackwell() -> None:
    server = make_server(args=args("--attention-backend=flashinfer"))
    assert not [c for c in checks(server, gpus=(BLACKWELL,)) if c.name == "attention"]


def test_a_draft_of_an_unknown_kind_says_nothing() -> None:
    assert not [c for c in checks(make_server(), models=()) if c.name == "draft-kind"]


def test_our_own_running_server_is_no_conflict() -> None:
    running = (ServerFact("main", "r1", True),)
    found = checks(make_server(), ports=(30000,), gpus=(gpu(used_mib=70_000),), servers=running)
    assert not [c for c in found if c.name in ("port", "gpus")]


def test_other_servers_gpus_do_not_count() -> None:
    busy = (gpu(0), gpu(1, used_mib=70_000))
    assert not [c for c in checks(make_server(gpus=(0,)), gpus=busy) if c.name == "gpus"]


def test_a_server_without_speculation_has_no_limit_and_no_draft() -> None:
    found = checks(make_server(args=(), threshold=None))
    assert {c.name: c.verdict for c in found} == {"route": Verdict.OK, "model": Verdict.OK}


def test_a_rehearsal_on_a_cpu_does_not_look_for_gpus() -> None:
    server = make_server(gpus=(0,), timers=Timers(start_s=60))
    found = checks(server, host={"target": Target.CPU}, gpus=None)
    assert {c.verdict for c in found} == {Verdict.OK, Verdict.WARN}
    assert not [c for c in found if c.name in ("gpus", "start-time")]
