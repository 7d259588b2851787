"""The prediction beside the real SGLang: same class, same file, and an error exactly where it has one."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from route.real import needs_rig, run_real
from specctl.route.options import load_options
from specctl.route.predict import predict, read_local

pytestmark = pytest.mark.rig

BASE = "0.5.9"
VARIABLE = "SGLANG_ENABLE_SPEC_V2"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}


def every_combination(model: str) -> list[dict[str, Any]]:
    """Algorithm x topk (with and without steps) x variable x overlap flag x device."""
    cases = []
    for algorithm, shape, variable, overlap, device in itertools.product(
        (None, "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"),
        (
            (),
            ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1"),
            (
                "--speculative-num-steps",
                "3",
                "--speculative-eagle-topk",
                "4",
                "--speculative-num-draft-tokens",
                "8",
            ),
            ("--speculative-eagle-topk", "1"),
            ("--speculative-eagle-topk", "4"),
            ("--speculative-num-steps", "3"),
            ("--speculative-num-draft-tokens", "4"),
        ),
        (None, "0", "1", "true", "True", "y", "no", "junk", ""),
        (False, True),
        ("cpu", "cuda"),
    ):
        args = ["--model-path", model, "--device", device, *shape]
        if algorithm:
            args += ["--speculative-algorithm", algorithm]
        if overlap:
            args.append("--disable-overlap-schedule")
        cases.append({"args": args, "env": {} if variable is None else {VARIABLE: variable}})
    return cases


EAGLE = ("--speculative-algorithm", "EAGLE")
TREE = (
    "--speculative-num-steps",
    "3",
    "--speculative-eagle-topk",
    "4",
    "--speculative-num-draft-tokens",
    "8",
)
V2 = {VARIABLE: "1"}
SPECIAL: list[tuple[tuple[str, ...], dict[str, str]]] = [
    (("--speculative-algo", "EAGLE"), {}),
    (("--speculative-algo=EAGLE3",), V2),
    (("--speculative-algorithm=NEXTN", "--speculative-algorithm", "STANDALONE"), V2),
    (("--speculative", "EAGLE"), {}),
    (("--speculative-algorithm", "eagle"), {}),
    (("--speculative-algorithm", "MEDUSA"), {}),
    ((*EAGLE, "--speculative-num-steps", "three"), {}),
    ((*EAGLE, "--no-such-flag"), {}),
    ((*EAGLE, "--no-such-flag", "3"), {}),
    ((*EAGLE, "stray"), {}),
    ((*EAGLE, "--speculative-eagle-topk", "-1", "--speculative-num-steps", "3"), {}),
    ((*EAGLE, "--max-running-requests", "70"), {}),
    (("--max-running-requests", "70"), {}),
    ((*EAGLE, "--page-size", "16", "--attention-backend", "triton", *TREE), {}),
    ((*EAGLE, "--page-size", "16", "--attention-backend", "flashinfer", *TREE), {}),
    ((*EAGLE, "--page-size", "16", "--attention-backend", "triton"), {}),
    (("--speculative-algorithm", "NGRAM", "--page-size", "16", "--attention-backend", "fa3"), {}),
    (
        ("--speculative-algorithm", "NGRAM", "--page-size", "16", "--speculative-ngram-max-bfs-breadth", "1"),
        {},
    ),
    (("--speculative-algorithm", "STANDALONE", "--enable-dp-attention"), {}),
    (("--speculative-algorithm", "NGRAM", "--enable-dp-attention"), {}),
    (
        (
            "--speculative-algorithm",
            "STANDALONE",
            "--enable-dp-attention",
            "--dp-size",
            "2",
            "--tp-size",
            "2",
        ),
        {},
    ),
    (("--speculative-algorithm", "NGRAM", "--enable-dp-attention", "--dp-size", "2", "--tp-size", "2"), {}),
    ((*EAGLE, "--enable-dp-attention", "--dp-size", "2", "--tp-size", "2"), {}),
    ((*EAGLE, "--enable-lora"), {}),
    ((*EAGLE, "--pp-size", "2"), {}),
    (("--pp-size", "2"), {}),
    ((*EAGLE, "--enable-multi-layer-eagle"), {}),
    ((*EAGLE, "--enable-multi-layer-eagle"), V2),
    (("--speculative-algorithm", "STANDALONE", "--enable-multi-layer-eagle"), V2),
    ((*EAGLE,), {"SGLANG_EMBEDDINGS_SPARSE_HEAD": "x"}),
    ((), {"SGLANG_EMBEDDINGS_SPARSE_HEAD": "x"}),
    ((*EAGLE, "--disaggregation-decode-enable-offload-kvcache", "--disaggregation-mode", "decode"), V2),
    ((*EAGLE, "--disaggregation-decode-enable-offload-kvcache"), {}),
]
ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "MiMoV2FlashForCausalLM")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every command line, over tiny models that have a config and no weights."""
    folder = tmp_path_factory.mktemp("models")
    for architecture in ARCHITECTURES[:2]:
        (folder / architecture).mkdir()
        config = {**CONFIG, "architectures": [architecture]}
        (folder / architecture / "config.json").write_text(json.dumps(config))
    llama, qwen = str(folder / "LlamaForCausalLM"), str(folder / "Qwen2ForCausalLM")
    settings = folder / "server.yaml"
    settings.write_text(
        "speculative-algorithm: EAGLE\ndisable_overlap_schedule: true\nspeculative_num_steps: 5\n"
    )
    found = every_combination(llama)
    for args, env in SPECIAL:
        # cuda, because backends that only CUDA has are judged there as on a server
        found.append({"args": ["--model-path", llama, "--device", "cuda", *args], "env": env})
    for env in ({}, V2):
        found.append({"args": ["--model-path", qwen, "--device", "cpu", *EAGLE], "env": env})
        config = ["--config", str(settings), "--speculative-eagle-topk", "1"]
        found.append({"args": [*config, "--model-path", llama, "--device", "cpu"], "env": env})
        over = ["--speculative-algorithm", "STANDALONE"]
        found.append({"args": ["--model-path", llama, *config, "--device", "cpu", *over], "env": env})
        found.append({"args": ["--model-path", llama, f"--config={settings}", "--device", "cpu"], "env": env})
    found.append({"args": ["--model-path", llama, "--config", str(folder / "none.yaml")], "env": {}})
    found.append({"args": ["--model-path", llama, "--config"], "env": {}})
    return found


@pytest.fixture(scope="module")
def real(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    needs_rig()
    answers: list[dict[str, Any]] = json.loads(run_real("real_routes.py", cases).splitlines()[-1])
    return answers


def shown(case: dict[str, Any], said: Any, real: Any) -> str:
    return f"{case['env']} {' '.join(case['args'][2:])}\n  specctl: {said}\n  sglang: {real}"


def test_every_combination_starts_the_predicted_class_or_fails_as_predicted(
    cases: list[dict[str, Any]], real: list[dict[str, Any]]
) -> None:
    wrong = []
    for case, answer in zip(cases, real, strict=True):
        said = predict(BASE, case["args"], case["env"], read=read_local)
        if answer["error"] is not None:
            agrees = not said.starts and said.worker is None
        else:
            agrees = said.starts and (said.worker, said.file, said.overlap) == (
                answer["worker"],
                answer["file"],
                answer["overlap"],
            )
        if not agrees:
            wrong.append(shown(case, said, answer))
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:10])
    classes = {answer.get("worker") for answer in real}
    assert {
        "EAGLEWorker",
        "EAGLEWorkerV2",
        "StandaloneWorker",
        "StandaloneWorkerV2",
        "NGRAMWorker",
    } <= classes
    assert sum(answer["error"] is not None for answer in real) > 100


def test_steps_topk_and_the_request_limit_are_those_of_the_server(
    cases: list[dict[str, Any]], real: list[dict[str, Any]]
) -> None:
    compared = 0
    for case, answer in zip(cases, real, strict=True):
        said = predict(BASE, case["args"], case["env"], read=read_local)
        if answer["error"] is not None or answer["worker"] in (None, "NGRAMWorker"):
            continue
        for key in ("steps", "topk", "draft_tokens", "max_running_requests"):
            assert getattr(said, key) == answer[key], f"{key}: {shown(case, said, answer)}"
        compared += 1
    assert compared > 200


def test_options_match_the_real_parser() -> None:
    needs_rig()
    real_options = json.loads(run_real("dump_options.py"))
    assert list(load_options(f"{BASE}.json")) == real_options


def test_a_record_names_the_file_of_every_worker_class() -> None:
    needs_rig()
    from rig import environment

    from specctl.base.store import BaseStore

    base = BaseStore.discover(Path("no-such-folder")).get(BASE)
    assert len(base.workers) == 7
    for worker, file in base.workers.items():
        assert f"\nclass {worker}(" in (environment.tree("base") / file).read_text() or (
            f"\nclass {worker}:" in (environment.tree("base") / file).read_text()
        )
