"""Arguments are found as SGLang's argparse finds them: short, joined, by any name, the last one counts."""

from __future__ import annotations

import pytest

from specctl.config import arguments as sglang
from specctl.config.arguments import LaunchFlag, find, number


@pytest.mark.parametrize(
    ("text", "flag", "value"),
    [
        ("--tp-size 2", sglang.TP_SIZE, "2"),
        ("--tp=2", sglang.TP_SIZE, "2"),
        ("--tensor-parallel 2", sglang.TP_SIZE, "2"),
        ("--te 2", sglang.TP_SIZE, "2"),
        ("--tp 2 --tp-size 4", sglang.TP_SIZE, "4"),
        ("--speculative-algo EAGLE", sglang.ALGORITHM, "EAGLE"),
        ("--speculative-draft-model /d", sglang.DRAFT_MODEL, "/d"),
        ("--model-p /m", sglang.MODEL_PATH, "/m"),
        ("--model /m", sglang.MODEL_PATH, "/m"),
        ("--ap k", sglang.API_KEY, "k"),
        ("--port --host x", sglang.PORT, None),
        ("--enable-dp-attention true", sglang.DP_ATTENTION, None),
        ("--max-running-requests=", sglang.MAX_RUNNING, ""),
    ],
)
def test_an_argument_is_found(text: str, flag: LaunchFlag, value: str | None) -> None:
    given = find(text.split(), flag)
    assert given is not None
    assert given.value == value


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("--model-loader-extra-config x", sglang.MODEL_PATH),
        ("--admin-api-key k", sglang.API_KEY),
        ("--port-range 3", sglang.PORT),
        ("--p 3", sglang.PORT),
        ("--tp-sizes 3", sglang.TP_SIZE),
        ("--tokenizer-path --x", sglang.TP_SIZE),
        ("port 3", sglang.PORT),
        ("--speculative-draft-model-revision x", sglang.DRAFT_MODEL),
        ("--speculative-disable-draft-sync lazy", sglang.THRESHOLD[0]),
        ("--hostname x", sglang.HOST),
    ],
)
def test_another_argument_is_not_taken_for_it(text: str, flag: LaunchFlag) -> None:
    assert find(text.split(), flag) is None


@pytest.mark.parametrize(
    ("text", "value"), [("--tp 8", 8), ("--tp x", None), ("--tp", None), ("", None), ("--tp -1", None)]
)
def test_a_number_is_a_number_or_nothing(text: str, value: int | None) -> None:
    assert number(text.split(), sglang.TP_SIZE) == value
