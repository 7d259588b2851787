"""`specctl route` refuses exactly the thresholds that the overlay's own start checks refuse."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from specctl.cli.main import cli
from specctl.errors import UsageError
from specctl.overlay import OverlayStore
from specctl.route.options import parse
from specctl.route.predict import predict

BASE = "0.5.9"
THRESHOLD = "--speculative-disable-batch-threshold"
RESUME = "--speculative-resume-batch-threshold"
STEPS = "--speculative-resume-steps"
ALIASES = {"NEXTN": "EAGLE"}


@pytest.fixture(scope="module")
def overlay() -> ModuleType:
    """The overlay's settings.py, as the server imports it."""
    root: Path = OverlayStore.discover().folder("dynamic-disable")
    file = next(root.glob("files/**/dynamic_disable/settings.py"))
    spec = importlib.util.spec_from_file_location("overlay_settings", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def as_server(args: Namespace) -> Namespace:
    """The values that SGLang has filled in when it calls the overlay's checks."""
    algorithm = ALIASES.get(args.speculative_algorithm, args.speculative_algorithm)
    replicas = args.data_parallel_size or 1
    return Namespace(
        **{
            **vars(args),
            "speculative_algorithm": algorithm,
            "max_running_requests": args.max_running_requests or 48,
            "dp_size": replicas,
            "pp_size": args.pipeline_parallel_size or 1,
            "enable_dp_attention": args.enable_dp_attention and replicas > 1,
            "disaggregation_mode": args.disaggregation_mode or "null",
        }
    )


ALGORITHMS = (
    (),
    *(("--speculative-algorithm", n) for n in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")),
)
THRESHOLDS = ((), *((THRESHOLD, n) for n in ("-1", "0", "1", "15", "16", "24", "47", "48", "99")))
RESUMES = ((), *((RESUME, n) for n in ("-1", "0", "1", "16", "20")), (RESUME, "1", STEPS, "0"), (STEPS, "2"))
OTHERS = (
    (),
    ("--speculative-disable-draft-sync", "warm"),
    ("--max-running-requests", "16"),
    ("--max-running-requests", "100"),
    ("--dp-size", "2"),
    ("--enable-dp-attention",),
    ("--enable-dp-attention", "--dp-size", "2"),
    ("--pp-size", "2"),
    ("--disaggregation-mode", "prefill"),
    ("--enable-two-batch-overlap",),
    ("--enable-multi-layer-eagle",),
    ("--enable-pdmux",),
    ("--enable-lora",),
)


def test_no_server_is_called_startable_that_the_overlay_would_stop(overlay: ModuleType) -> None:
    wrong, refused, silent = [], 0, 0
    for parts in itertools.product(ALGORITHMS, THRESHOLDS, RESUMES, OTHERS):
        argv = [word for part in parts for word in part]
        bare = [
            word
            for part in (parts[0], parts[3])
            for word in part
            if "draft-sync" not in word and word != "warm"
        ]
        if predict(BASE, bare, {}).problems:
            continue  # the base itself refuses: held to the real SGLang by test_agrees_with_sglang.py
        try:
            overlay.check_server_args(as_server(parse(f"{BASE}.json", argv)[0]))
            expected = None
        except ValueError as exc:
            expected = str(exc)
        problems = predict(BASE, argv, {}).problems
        refused, silent = refused + (expected is not None), silent + (expected is None)
        if expected is None and problems:
            wrong.append(f"{argv}: the overlay takes it, route says {problems}")
        elif expected is not None and not any(expected.startswith(problem[:30]) for problem in problems):
            wrong.append(f"{argv}: the overlay says {expected!r}, route says {problems}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:10])
    assert refused > 500
    assert silent > 100


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--speculative-algorithm", "EAGLE", THRESHOLD, "99"), "can never be exceeded: at most 48"),
        (("--speculative-algorithm", "EAGLE", THRESHOLD, "10", RESUME, "20"), "must not be larger"),
        (("--speculative-algorithm", "NGRAM", THRESHOLD, "10"), "NGRAM is not supported"),
        ((THRESHOLD, "10"), "does not speculate"),
        (("--speculative-algorithm", "EAGLE", STEPS, "2"), "has no effect without"),
    ],
)
def test_the_exit_code_tells_a_script_that_this_server_would_refuse_to_start(
    args: tuple[str, ...], says: str
) -> None:
    done = CliRunner().invoke(cli, ["route", "--", "--model-path", "m", *args])
    assert done.exit_code == 1
    assert says in done.stdout
    assert "worker: none, the server would refuse to start" in done.stdout


def test_a_question_without_arguments_is_not_answered_with_a_yes() -> None:
    for argv in (["route"], ["route", "--", "python", "-m", "sglang.launch_server"]):
        done = CliRunner().invoke(cli, argv)
        assert isinstance(done.exception, UsageError)
        assert "no server arguments" in done.exception.message


def test_whose_rules_judged_a_distribution_is_said() -> None:
    done = CliRunner().invoke(cli, ["route", "--base", "0.5.9+specctl.7", "--", "--model-path", "m"])
    assert "judged by the rules of 0.5.9 and of the overlays" in done.stderr
