"""The flags of dynamic speculation disable, their defaults, and the checks that stop a server at start.

Imports nothing of SGLang: `server_args.py` uses it while the command line is parsed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

THRESHOLD = "speculative_disable_batch_threshold"
RESUME = "speculative_resume_batch_threshold"
RESUME_STEPS = "speculative_resume_steps"
DRAFT_SYNC = "speculative_disable_draft_sync"
LIVE = (THRESHOLD, RESUME, RESUME_STEPS)  # may be changed while serving

DRAFT_SYNCS = ("lazy", "warm", "cold")
DEFAULT_RESUME_STEPS = 4  # decode steps; coming back costs one rebuild of at most 16 tokens a request
PENDING_PAIRS = {"lazy": 16, "warm": 1, "cold": 1}  # pairs kept for each request


def flag(name: str) -> str:
    """`speculative_resume_steps` -> `--speculative-resume-steps`."""
    return "--" + name.replace("_", "-")


def add_cli_args(parser: argparse.ArgumentParser) -> None:
    """Add the four flags to SGLang's own parser."""
    parser.add_argument(
        flag(THRESHOLD),
        type=int,
        default=None,
        metavar="N",
        help="Decode without speculation while more than N requests are in the decode batch (0: always). "
        "Unset: speculation is never switched off. EAGLE and EAGLE3 only.",
    )
    parser.add_argument(
        flag(RESUME),
        type=int,
        default=None,
        metavar="M",
        help="Speculate again once the decode batch has been M or smaller for --speculative-resume-steps "
        "steps in a row. At most N. Default: about one eighth below N.",
    )
    parser.add_argument(
        flag(RESUME_STEPS),
        type=int,
        default=None,
        metavar="K",
        help=f"Decode steps at or below M before speculation resumes. Default: {DEFAULT_RESUME_STEPS}.",
    )
    parser.add_argument(
        flag(DRAFT_SYNC),
        choices=DRAFT_SYNCS,
        default=None,
        help="The draft model's KV cache while speculation is off. lazy: brought up to date every "
        f"{PENDING_PAIRS['lazy']} tokens and on resuming. warm: after every token. cold: not at all, so "
        "drafts are worse afterwards, also for later requests that share a cached prefix. Default: lazy.",
    )


@dataclass(frozen=True)
class Settings:
    """The values as used. Thresholds are requests in the decode batch."""

    threshold: int
    resume: int
    resume_steps: int
    draft_sync: str

    @property
    def pending_pairs(self) -> int:
        return PENDING_PAIRS[self.draft_sync]


def default_resume(threshold: int) -> int:
    """A little below the threshold, so that a batch that hovers around it does not flap."""
    return min(threshold, max(1, threshold - max(1, threshold // 8)))


def resolve(threshold, resume=None, resume_steps=None, draft_sync=None) -> Settings:
    """Fill in the defaults.

    Raises:
        ValueError: a value is not a whole number or out of its range; the text names flag, value and range.
    """
    _whole(THRESHOLD, threshold, 0)
    if resume is None:
        resume = default_resume(threshold)
    # with M = 0 and N > 0 speculation would go off once and never come back
    _whole(RESUME, resume, min(1, threshold))
    if resume > threshold:
        raise ValueError(f"{flag(RESUME)} {resume} must not be larger than {flag(THRESHOLD)} {threshold}.")
    if resume_steps is None:
        resume_steps = DEFAULT_RESUME_STEPS
    _whole(RESUME_STEPS, resume_steps, 1)
    if draft_sync is None:
        draft_sync = "lazy"
    if draft_sync not in DRAFT_SYNCS:
        raise ValueError(f"{flag(DRAFT_SYNC)} must be one of {', '.join(DRAFT_SYNCS)}, not {draft_sync!r}.")
    return Settings(threshold, resume, resume_steps, draft_sync)


def _whole(name: str, value, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{flag(name)} must be a whole number, not {value!r}.")
    if value < least:
        raise ValueError(f"{flag(name)} must be {least} or more, not {value}.")


def check_reachable(threshold: int, limit: int, why: str) -> None:
    """Refuse a threshold that the running batch can never exceed.

    Raises:
        ValueError: `threshold` is `limit` or more.
    """
    if threshold >= limit:
        raise ValueError(
            f"{flag(THRESHOLD)} {threshold} can never be exceeded: at most {limit} requests run at once "
            f"({why}). Use a smaller threshold or raise --max-running-requests."
        )


def check_server_args(args) -> None:
    """Stop the server at start when the switch could not work. Called once speculation's defaults are filled in.

    Raises:
        ValueError: with one sentence that says what does not fit.
    """
    threshold = getattr(args, THRESHOLD)
    if threshold is None:
        orphans = [flag(n) for n in (RESUME, RESUME_STEPS, DRAFT_SYNC) if getattr(args, n) is not None]
        if orphans:
            raise ValueError(f"{', '.join(orphans)} has no effect without {flag(THRESHOLD)}.")
        return
    resolve(threshold, getattr(args, RESUME), getattr(args, RESUME_STEPS), getattr(args, DRAFT_SYNC))
    for refused, what in _refusals(args):
        if refused:
            raise ValueError(f"{flag(THRESHOLD)} {what}.")
    limit = args.max_running_requests // max(1, args.dp_size)
    why = "48 is the default with speculative decoding" if args.max_running_requests == 48 else "--max-running-requests"
    check_reachable(threshold, limit, why)


def _refusals(args):
    algorithm = args.speculative_algorithm
    return (
        (algorithm is None, "needs --speculative-algorithm EAGLE or EAGLE3; this server does not speculate"),
        (
            algorithm not in ("EAGLE", "EAGLE3"),
            f"needs --speculative-algorithm EAGLE or EAGLE3; {algorithm} is not supported",
        ),
        (args.enable_multi_layer_eagle, "does not support multi-layer EAGLE"),
        (args.enable_dp_attention, "does not support --enable-dp-attention: its ranks would have to switch together"),
        (args.pp_size > 1, "does not support pipeline parallelism (--pp-size)"),
        (args.disaggregation_mode != "null", "does not support prefill/decode disaggregation (--disaggregation-mode)"),
        (args.enable_two_batch_overlap, "does not support --enable-two-batch-overlap"),
        (args.enable_pdmux, "does not support --enable-pdmux"),
        (args.enable_lora, "does not support --enable-lora"),
    )


def check_model(runner) -> None:
    """Refuse models whose state the plain step does not carry. Called when the target model is loaded.

    Raises:
        ValueError: the model is of such a kind.
    """
    kinds = (
        (runner.model_config.is_encoder_decoder, "encoder-decoder models"),
        (runner.mambaish_config is not None, "models with Mamba or linear-attention layers"),
        (runner.model_is_mrope, "models with multimodal rotary positions (mrope)"),
    )
    for refused, what in kinds:
        if refused:
            raise ValueError(f"{flag(THRESHOLD)} does not support {what}.")


def counted_tokens(args, completion_tokens: int, accepted_tokens: int, verify_steps: int) -> int:
    """Tokens of a request that count for its accepted length.

    Tokens of plain steps have no verify step to be divided by, so they are left out. The first token comes
    from the prefill and is counted, as SGLang does.
    """
    if getattr(args, THRESHOLD) is None:
        return completion_tokens
    return min(completion_tokens, accepted_tokens + verify_steps + 1)
