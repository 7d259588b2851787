"""What people ask of `specctl route`; test_agrees_with_sglang.py holds the same rules to the real SGLang."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from specctl.base.errors import UnknownBase
from specctl.cli.main import cli
from specctl.route.command import split_command
from specctl.route.config_file import ConfigFileError, expand
from specctl.route.errors import RouteUnknown
from specctl.route.predict import predict

V2 = {"SGLANG_ENABLE_SPEC_V2": "1"}
EAGLE = ("--speculative-algorithm", "EAGLE")


@pytest.mark.parametrize(
    ("args", "env", "worker"),
    [
        ((), {}, None),
        (EAGLE, {}, "EAGLEWorker"),
        (EAGLE, V2, "EAGLEWorkerV2"),
        ((*EAGLE, "--disable-overlap-schedule"), V2, "EAGLEWorkerV2"),
        (("--speculative-algo=EAGLE3",), {"SGLANG_ENABLE_SPEC_V2": "TRUE"}, "EAGLEWorkerV2"),
        (("--speculative-algorithm", "NEXTN"), {"SGLANG_ENABLE_SPEC_V2": "on"}, "EAGLEWorker"),
        (("--speculative-algorithm", "STANDALONE"), V2, "StandaloneWorkerV2"),
        (("--speculative-algorithm", "NGRAM"), V2, "NGRAMWorker"),
        ((*EAGLE, "--speculative-disable-batch-threshold", "16"), {}, "EAGLEWorker"),
    ],
)
def test_arguments_select_a_class(args: tuple[str, ...], env: dict[str, str], worker: str | None) -> None:
    found = predict("0.5.9", args, env)
    assert (found.worker, found.problems) == (worker, ())
    assert found.file is None if worker is None else (found.file or "").endswith(".py")


@pytest.mark.parametrize(
    ("args", "env", "says"),
    [
        ((*EAGLE, "--speculative-num-steps", "3", "--speculative-eagle-topk", "4"), V2, "topk 1 only"),
        ((*EAGLE, "--speculative-eagle-topk", "1"), {}, "needs --speculative-num-steps"),
        (("--speculative-algorithm", "MEDUSA"), {}, "invalid choice"),
        ((*EAGLE, "--enable-lora"), {}, "LoRA"),
        ((*EAGLE, "--speculative-threshold", "3"), {}, "does not know: --speculative-threshold 3"),
        (("--speculative-algoritm", "EAGLE3"), {}, "EAGLE3 (did you mean --speculative-algorithm?)"),
        (("--tp_size=2",), {}, "--tp_size=2 (did you mean --tp-size?)"),
        (("--tp_size", "2", "--moddel-path", "m"), {}, "(did you mean --tp-size and --model-path?)"),
        (("--no-such-flag",), {}, "does not know: --no-such-flag"),
        (("--spec", "EAGLE"), {}, "ambiguous option"),
    ],
)
def test_a_server_that_would_not_start_gets_no_class_and_a_reason(
    args: tuple[str, ...], env: dict[str, str], says: str
) -> None:
    found = predict("0.5.9", args, env)
    assert found.worker is None
    assert not found.starts
    assert any(says in problem for problem in found.problems), found.problems


@pytest.mark.parametrize(
    ("args", "env", "says"),
    [
        (EAGLE, {}, "limits the running batch to 48"),
        (EAGLE, {"SGLANG_ENABLE_SPEC_V2": "on"}, "'on' is not a boolean"),
        ((*EAGLE, "--disable-overlap-schedule"), V2, "overrules --disable-overlap-schedule"),
        ((*EAGLE, "--config=a.yaml"), {}, "ignores --config=a.yaml"),
        (("--speculative-algorithm", "NGRAM", "--page-size", "16"), {}, "set --attention-backend"),
    ],
)
def test_what_is_likely_not_meant_is_said(args: tuple[str, ...], env: dict[str, str], says: str) -> None:
    assert any(says in warning for warning in predict("0.5.9", args, env).warnings)


def test_topk_that_sglang_chooses_itself_is_warned_of_on_v2() -> None:
    files = {"m/config.json": json.dumps({"architectures": ["LlamaForCausalLM"]}).encode()}
    found = predict("0.5.9", (*EAGLE, "--model-path", "m/"), V2, read=files.get)
    assert found.worker == "EAGLEWorkerV2"
    assert found.topk == 4
    assert any("topk 4" in warning for warning in found.warnings)


def test_a_model_that_turns_multi_layer_eagle_on_gets_its_class() -> None:
    found = predict("0.5.9", EAGLE, {}, architecture="MiMoV2FlashForCausalLM")
    assert found.worker == "MultiLayerEagleWorkerV2"


def test_a_distribution_is_judged_by_its_base() -> None:
    assert predict("0.5.9+specctl.3", EAGLE, V2).worker == "EAGLEWorkerV2"
    assert predict("0.5.9.post0.dev1+specctl.1", EAGLE, V2).worker == "EAGLEWorkerV2"
    for unknown in ("0.5.99", "0.5.99.dev1", "main"):
        with pytest.raises(UnknownBase, match=unknown):
            predict(unknown, EAGLE, V2)
    with pytest.raises(RouteUnknown):
        predict("0.5.11", EAGLE, V2)


def test_the_settings_of_a_config_file_stand_in_front_of_the_command_line() -> None:
    text = b"speculative-algorithm: EAGLE\ndisable-overlap-schedule: true\n"
    text += b"enable-lora: false\ncuda-graph-bs: [1, 2]\n"
    files = {"s.yaml": text}
    got = expand(
        ["--tp-size", "2", "--config", "s.yaml", "--port", "1"],
        {"disable_overlap_schedule", "enable_lora"},
        files.get,
    )
    assert got == [
        *("--speculative-algorithm", "EAGLE", "--disable-overlap-schedule", "--cuda-graph-bs", "1", "2"),
        *("--tp-size", "2", "--port", "1"),
    ]
    over = predict(
        "0.5.9", ("--config", "s.yaml", "--speculative-algorithm", "STANDALONE"), {}, read=files.get
    )
    assert over.worker == "StandaloneWorker"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--config",), "needs a file"),
        (("--config", "a.yaml", "--config", "b.yaml"), "more than once"),
        (("--config", "a.json"), "no .yaml"),
        (("--config", "none.yaml"), "cannot be read"),
        (("--config", "list.yaml"), "not a mapping"),
        (("--config", "bad.yaml"), "not YAML"),
    ],
)
def test_a_config_file_that_sglang_refuses_is_refused(args: tuple[str, ...], says: str) -> None:
    files = {"list.yaml": b"- a\n", "bad.yaml": b"a: [", "a.yaml": b"", "b.yaml": b""}
    with pytest.raises(ConfigFileError, match=says):
        expand(args, (), files.get)


@pytest.mark.parametrize(
    ("words", "env", "args"),
    [
        (["--tp-size", "2"], {}, ["--tp-size", "2"]),
        (["python3", "-m", "sglang.launch_server", "--tp-size", "2"], {}, ["--tp-size", "2"]),
        (
            ["A=1", "B=x=y", "/v/bin/sglang", "serve", "--tp-size", "2"],
            {"A": "1", "B": "x=y"},
            ["--tp-size", "2"],
        ),
        (["env", "A=1", "python", "sglang/launch_server.py", "--x"], {"A": "1"}, ["--x"]),
        ([], {}, []),
    ],
)
def test_a_pasted_command_line_is_understood(words: list[str], env: dict[str, str], args: list[str]) -> None:
    assert split_command(words) == (env, args)


def test_the_command_prints_the_class_and_exits_with_1_for_a_server_that_would_not_start() -> None:
    good = CliRunner().invoke(cli, ["route", "--env", "SGLANG_ENABLE_SPEC_V2=1", "--json", "--", *EAGLE])
    assert good.exit_code == 0
    assert json.loads(good.stdout)["worker"] == "EAGLEWorkerV2"
    bad = CliRunner().invoke(cli, ["route", "--", *EAGLE, "--speculative-num-steps", "3"])
    assert bad.exit_code == 1
    assert "problem: --speculative-num-steps needs --speculative-eagle-topk" in bad.stdout
