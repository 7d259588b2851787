"""Repairs of faults of this SGLang release that later releases do not have. Each names its report."""

from __future__ import annotations


def stopped_before_limit(req, new_accepted_len: int) -> bool:
    """A request that reached max_new_tokens may have met a stop token earlier in the same accepted run.

    Without speculation a step adds one token, so the stop token is seen before the limit is. A speculative
    step adds a run of tokens; testing the length first then returns the tokens behind the stop token too.

    Args:
        req: the scheduler's request; its `output_ids` already hold the run and are over the limit or at it.
        new_accepted_len: tokens of the run.

    Returns:
        True: the request is finished by its stop token. False: nothing was changed.
    """
    if new_accepted_len <= 1 or not req._check_token_based_finish(req.output_ids[-new_accepted_len:]):
        return False
    if req.finished_len < req.sampling_params.max_new_tokens:
        return True
    # the stop token is the last allowed token or behind it: plain decoding reports the length
    req.finished_reason = req.finished_len = None
    return False
