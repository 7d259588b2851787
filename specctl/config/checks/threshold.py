"""Whether a threshold policy can work with the server's arguments (SGLang 0.5.9 and the overlay's rules)."""

from __future__ import annotations

from specctl.config import arguments as sglang
from specctl.config.checks.case import ServerCase
from specctl.config.model import ThresholdPolicy
from specctl.config.problems import shown

OVERLAY = "dynamic-disable"


def check_threshold(case: ServerCase) -> None:
    """Refuse what could never switch, or what would stop the server at start."""
    _check_flags(case)
    policy = case.server.threshold
    if policy is None:
        return
    where = case.at("threshold", "disable")
    if policy.resume is not None and policy.resume > policy.disable:
        text = f"resume {policy.resume} is above disable {policy.disable}"
        hint = f"resume at or below {policy.disable}; disable is at {where}"
        case.refuse("threshold", case.at("threshold", "resume"), text, hint)
    if OVERLAY not in case.host.overlays:
        text = f"a threshold needs the overlay {OVERLAY}"
        case.refuse("threshold", where, text, f"add {OVERLAY} to overlays, or take threshold out")
    attention = case.find(sglang.DP_ATTENTION)
    if attention is not None:
        text = "a threshold does not work with attention data parallelism"
        hint = "take --enable-dp-attention or threshold out"
        case.refuse("threshold", case.at_argument(attention.index), text, hint)
    _check_algorithm(case)
    _check_limit(case, policy)


def _check_flags(case: ServerCase) -> None:
    """Only `threshold:` may set the flags: verify compares the running server with it."""
    both = case.server.threshold is not None
    hint = "take it out of args" if both else "write it under threshold:, so that verify knows what to expect"
    for flag in sglang.THRESHOLD:
        given = case.find(flag)
        if given is not None:
            text = f"{given.spelled} is what `threshold:` says"
            case.refuse("argument-twice", case.at_argument(given.index), text, hint)


def _check_algorithm(case: ServerCase) -> None:
    given = case.find(sglang.ALGORITHM)
    unseen = case.find(sglang.CONFIG) is not None
    if given is None:
        if not unseen:
            text = "a threshold without speculation has nothing to switch off"
            hint = "add --speculative-algorithm EAGLE3 (or EAGLE) to args, or take threshold out"
            case.refuse("threshold", case.at("threshold", "disable"), text, hint)
        return
    algorithm = given.value or ""
    where = case.at_argument(given.index)
    if algorithm not in sglang.EAGLE_ALGORITHMS:
        text = f"a threshold does not work with the algorithm {shown(algorithm)}"
        capitals = algorithm.upper()
        known = capitals in sglang.EAGLE_ALGORITHMS
        hint = f"write {capitals}" if known else "use EAGLE or EAGLE3, or take threshold out"
        case.refuse("threshold", where, text, hint)
    elif algorithm == "EAGLE3" and case.find(sglang.DRAFT_MODEL) is None and not unseen:
        text = "EAGLE3 without a draft model: most targets would be loaded again as their own draft"
        case.warn("draft", where, text, "add --speculative-draft-model-path")


def _check_limit(case: ServerCase, policy: ThresholdPolicy) -> None:
    """A batch never grows past the limit of running requests: a threshold at or above it never fires."""
    given = case.find(sglang.MAX_RUNNING)
    limit = case.number(sglang.MAX_RUNNING)
    if given is None and case.find(sglang.CONFIG) is None:
        limit = sglang.DEFAULT_MAX_RUNNING_REQUESTS
    if limit is None or policy.disable < limit:
        return
    source = f"at {case.at_argument(given.index)}" if given else "SGLang's own limit with speculation"
    text = f"disable {policy.disable} never fires: at most {limit} requests run ({source})"
    hint = f"lower it below {limit}, or add --max-running-requests {policy.disable * 2} to args"
    case.refuse("threshold", case.at("threshold", "disable"), text, hint)
