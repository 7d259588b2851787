"""The start checks of the overlay dynamic-disable: what its settings.py refuses, refused here before a start.

tests/route/test_switch_rules.py holds these to the overlay's own file. What needs the loaded model
(encoder-decoder, Mamba, mrope) is judged by the server alone.
"""

from __future__ import annotations

from argparse import Namespace

from specctl.route.model import Trace

_THRESHOLD = "--speculative-disable-batch-threshold"
_RESUME = "--speculative-resume-batch-threshold"
_STEPS = "--speculative-resume-steps"
_SYNC = "--speculative-disable-draft-sync"


def switch_problems(args: Namespace, trace: Trace, *, algorithm: str | None, multi_layer: bool) -> list[str]:
    """Why the overlay would refuse to start this server; empty when it would start or has no threshold.

    Args:
        args: from `options.parse`.
        trace: with the request limit filled in.
        algorithm: after aliases; None without speculation.
        multi_layer: whether multi-layer EAGLE is on, by argument or by the model.
    """
    threshold, resume, steps = (
        args.speculative_disable_batch_threshold,
        args.speculative_resume_batch_threshold,
        args.speculative_resume_steps,
    )
    if threshold is None:
        sync = args.speculative_disable_draft_sync
        orphans = [
            flag for flag, value in ((_RESUME, resume), (_STEPS, steps), (_SYNC, sync)) if value is not None
        ]
        return [f"{', '.join(orphans)} has no effect without {_THRESHOLD}"] if orphans else []
    problems = _values(threshold, resume, steps)
    if algorithm is None:
        problems.append(
            f"{_THRESHOLD} needs --speculative-algorithm EAGLE or EAGLE3; this server does not speculate"
        )
    elif algorithm not in ("EAGLE", "EAGLE3"):
        problems.append(
            f"{_THRESHOLD} needs --speculative-algorithm EAGLE or EAGLE3; {algorithm} is not supported"
        )
    problems += [
        f"{_THRESHOLD} does not support {what}" for refused, what in _refusals(args, multi_layer) if refused
    ]
    replicas = max(1, args.data_parallel_size or 1)
    if algorithm is not None and trace.max_running_requests is not None:
        limit = trace.max_running_requests // replicas
        if threshold >= limit:
            own = args.max_running_requests is not None
            why = (
                "--max-running-requests"
                if own
                else f"{trace.max_running_requests} is the default with speculation"
            )
            problems.append(
                f"{_THRESHOLD} {threshold} can never be exceeded: "
                f"at most {limit} requests run at once ({why})"
            )
    return problems


def _values(threshold: int, resume: int | None, steps: int | None) -> list[str]:
    problems = []
    if threshold < 0:
        problems.append(f"{_THRESHOLD} must be 0 or more, not {threshold}")
    elif resume is not None and resume < min(1, threshold):
        problems.append(f"{_RESUME} must be {min(1, threshold)} or more, not {resume}")
    if resume is not None and resume > threshold:
        problems.append(f"{_RESUME} {resume} must not be larger than {_THRESHOLD} {threshold}")
    if steps is not None and steps < 1:
        problems.append(f"{_STEPS} must be 1 or more, not {steps}")
    return problems


def _refusals(args: Namespace, multi_layer: bool) -> tuple[tuple[bool, str], ...]:
    attention = bool(args.enable_dp_attention) and (args.data_parallel_size or 1) > 1
    return (
        (bool(multi_layer), "multi-layer EAGLE"),
        (attention, "--enable-dp-attention"),
        ((args.pipeline_parallel_size or 1) > 1, "pipeline parallelism"),
        (
            args.disaggregation_mode not in (None, "null"),
            "prefill/decode disaggregation (--disaggregation-mode)",
        ),
        (bool(args.enable_two_batch_overlap), "--enable-two-batch-overlap"),
        (bool(args.enable_pdmux), "--enable-pdmux"),
        (bool(args.enable_lora), "--enable-lora"),
    )
