"""Tokens of a plain step under EAGLEWorker that was launched and whose result the host does not have yet.

EAGLEWorker runs without the overlap scheduler: the result of a step is processed before the next one starts,
and meanwhile the GPU has nothing to do. A plain step needs from the one before it only what lies on the device
(the newest tokens, the lengths, the KV slots). So it is launched first, and while it runs the host gets the
tokens of the step before.
"""

from __future__ import annotations

import logging

import torch

from sglang.srt.managers.schedule_batch import FINISH_ABORT

logger = logging.getLogger(__name__)


class Launched:
    """One step's tokens, and logprobs if `logits` is given, on their way to the host."""

    def __init__(self, reqs, tokens, logits=None):
        self.reqs = list(reqs)  # the batch's own list grows when a prefill joins it
        self.tokens = tokens.to("cpu", non_blocking=True)
        self.logits = logits
        if logits is not None:
            self.logprobs = logits.next_token_logprobs.to("cpu", non_blocking=True)
        self._copied = torch.get_device_module(tokens.device).Event()
        self._copied.record()

    def hand_over(self, reqs) -> None:
        """Wait for the tokens and give them to those of `reqs` that are not finished.

        A request that is not among `reqs` any more was retracted: its token will be sampled again.
        """
        self._copied.synchronize()
        present = {id(req) for req in reqs}
        logprobs = None if self.logits is None else self.logprobs.tolist()
        for i, (req, token) in enumerate(zip(self.reqs, self.tokens.tolist())):
            if req is None or id(req) not in present or req.finished():
                continue
            accept(req, token)
            if logprobs is not None and req.return_logprob:
                _append_logprobs(req, i, token, logprobs[i], self.logits)


class InFlight:
    """The step in flight, or none."""

    def __init__(self):
        self._step = None

    def __bool__(self):
        return self._step is not None

    def hold(self, step: Launched) -> None:
        self._step = step

    def hand_over(self, reqs) -> None:
        """Nothing is in flight after this."""
        if self._step is not None:
            self._step.hand_over(reqs)
            self._step = None

    def forget(self, reqs=None) -> None:
        """These requests, or all, do not get their token: they were retracted and prefilled again."""
        if reqs is None or self._step is None:
            self._step = None
            return
        gone = {id(req) for req in reqs}
        self._step.reqs = [None if id(req) in gone else req for req in self._step.reqs]


def accept(req, token: int) -> None:
    """What a verify step does for an accepted token. Its KV slot was counted when the step was launched."""
    req.decode_batch_idx += 1
    req.output_ids.append(token)
    req.kv_committed_len += 1
    req.check_finished()
    if not req.finished() and req.grammar is not None:
        _advance_grammar(req, token)


def _advance_grammar(req, token: int) -> None:
    """A token that the grammar refuses ends its request.

    Without speculation that happens one token later, which nothing constrains any more. Here it is at once:
    the next step may be a verify step, and that lets the refusal end the server.
    """
    try:
        req.grammar.accept_token(token)
    except ValueError as exc:
        logger.error(f"Grammar accept_token failed for req {req.rid} with token {token}: {exc}")
        req.to_finish = FINISH_ABORT()
        req.check_finished()


def _append_logprobs(req, i: int, token: int, logprob: float, logits) -> None:
    """EAGLEWorker fills in the logprobs of its own steps; the scheduler does not."""
    req.output_token_logprobs_val.append(logprob)
    req.output_token_logprobs_idx.append(token)
    if req.top_logprobs_num > 0:
        req.output_top_logprobs_val.append(logits.next_token_top_logprobs_val[i])
        req.output_top_logprobs_idx.append(logits.next_token_top_logprobs_idx[i])
