"""The arguments of sglang.launch_server that an inventory has to understand. Read as argparse reads them.

Source: sglang 0.5.9, srt/server_args.py. argparse takes any unambiguous beginning of a flag, so `--api-k`
is `--api-key`; `shortest` is the shortest beginning that no other flag of 0.5.9, or of the overlay, shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specctl.config.command import DISABLE_FLAG, DRAFT_SYNC_FLAG, RESUME_FLAG, RESUME_STEPS_FLAG

# Without --max-running-requests, SGLang sets this limit itself as soon as an EAGLE speculation is on.
DEFAULT_MAX_RUNNING_REQUESTS = 48
EAGLE_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN")  # NEXTN is SGLang's other name for EAGLE


@dataclass(frozen=True)
class LaunchFlag:
    """One flag: its spellings in full, and the shortest beginning of each that argparse takes for it."""

    spellings: tuple[str, ...]
    shortest: tuple[str, ...]
    takes_value: bool = True

    @property
    def name(self) -> str:
        return self.spellings[0]

    def matches(self, word: str) -> bool:
        flag = word.split("=", 1)[0]
        return any(
            flag == full or (flag.startswith(least) and full.startswith(flag))
            for full, least in zip(self.spellings, self.shortest, strict=True)
        )


@dataclass(frozen=True)
class Given:
    """One occurrence of a flag: where in the list, as spelled, and its value (None: none was given)."""

    index: int
    spelled: str
    value: str | None


def _flag(*pairs: tuple[str, str], takes_value: bool = True) -> LaunchFlag:
    return LaunchFlag(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), takes_value)


MODEL_PATH = _flag(("--model-path", "--model-p"), ("--model", "--model"))
HOST = _flag(("--host", "--ho"))
PORT = _flag(("--port", "--po"))
API_KEY = _flag(("--api-key", "--ap"))
ADMIN_API_KEY = _flag(("--admin-api-key", "--ad"))
CONFIG = _flag(("--config", "--conf"))
ALGORITHM = _flag(("--speculative-algorithm", "--speculative-al"))
DRAFT_MODEL = _flag(
    ("--speculative-draft-model-path", "--speculative-draft-model-p"),
    ("--speculative-draft-model", "--speculative-draft-model"),
)
MAX_RUNNING = _flag(("--max-running-requests", "--max-r"))
TP_SIZE = _flag(("--tp-size", "--tp"), ("--tensor-parallel-size", "--te"))
PP_SIZE = _flag(("--pp-size", "--pp-s"), ("--pipeline-parallel-size", "--pip"))
DP_SIZE = _flag(("--dp-size", "--dp"), ("--data-parallel-size", "--da"))
NNODES = _flag(("--nnodes", "--nn"))
NCCL_PORT = _flag(("--nccl-port", "--nccl-p"))
DP_ATTENTION = _flag(("--enable-dp-attention", "--enable-dp-a"), takes_value=False)
THRESHOLD = (
    _flag((DISABLE_FLAG, "--speculative-disable-b")),
    _flag((RESUME_FLAG, "--speculative-resume-b")),
    _flag((RESUME_STEPS_FLAG, "--speculative-resume-s")),
    _flag((DRAFT_SYNC_FLAG, "--speculative-disable-d")),
)


def find(args: Sequence[str], flag: LaunchFlag) -> Given | None:
    """The last occurrence of a flag, which is the one that counts."""
    found: Given | None = None
    for index, word in enumerate(args):
        if word.startswith("--") and flag.matches(word):
            spelled, equals, value = word.partition("=")
            following = args[index + 1] if index + 1 < len(args) else None
            if equals:
                found = Given(index, spelled, value)
            elif flag.takes_value and following is not None and not following.startswith("--"):
                found = Given(index, spelled, following)
            else:
                found = Given(index, spelled, None)
    return found


def number(args: Sequence[str], flag: LaunchFlag) -> int | None:
    """The value of a flag as a whole number; None when it is not given or is no number."""
    given = find(args, flag)
    if given is None or given.value is None:
        return None
    text = given.value.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
