"""The plain step under EAGLEWorker: overlap off, the worker changes the ScheduleBatch itself."""

from __future__ import annotations

import logging

import torch

from sglang.srt.managers.schedule_batch import FINISH_ABORT
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.common import alloc_for_decode
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardMode
from sglang.srt.speculative.dynamic_disable.controller import Controller
from sglang.srt.speculative.dynamic_disable.rebuild import View
from sglang.srt.speculative.eagle_info import EagleDraftInput

logger = logging.getLogger(__name__)


class PlainStepV1(Controller):
    def step(self, batch):
        """Run this decode step without speculation, or return None when the worker must speculate.

        Args:
            batch: ScheduleBatch; its `spec_info` is the EagleDraftInput of the last step.
        """
        if batch.forward_mode.is_idle() or not batch.reqs:
            return None
        if self.decide(batch.batch_size()):
            return self._plain(batch)
        if self.pending.any(batch.reqs):
            view = View(batch.reqs, batch.req_pool_indices, batch.seq_lens, batch.seq_lens_cpu)
            self.rebuild.run(batch.get_model_worker_batch(), view, batch.spec_info)
        return None

    def _plain(self, batch):
        draft_input, reqs = batch.spec_info, batch.reqs
        positions = batch.seq_lens.clone()  # of the newest token, whose KV is not written yet
        worker_batch = self._prepare(batch, draft_input.verified_id.to(torch.int64))
        out = self.forward_target(worker_batch)
        logits, tokens = out.logits_output, out.next_token_ids
        # set by the sampler for grammars; a later verify step would apply it to its own logits
        batch.sampling_info.vocab_mask = None

        tokens_cpu = tokens.tolist()
        unfinished = self._accept(reqs, tokens_cpu)
        if batch.return_logprob:
            _append_logprobs(reqs, tokens_cpu, logits)
        batch.spec_info = self._next_draft_input(
            batch, worker_batch, draft_input, positions, unfinished, logits.hidden_states, tokens
        )
        return GenerationBatchResult(
            logits_output=logits,
            next_token_ids=tokens,
            num_accepted_tokens=0,
            accept_length_per_req_cpu=[0] * len(reqs),
            can_run_cuda_graph=out.can_run_cuda_graph,
            spec_off=True,
        )

    def _prepare(self, batch, newest):
        """What preparing a plain decode step does: penalties, one KV slot a request, lengths plus one."""
        penalizers = batch.sampling_info.penalizer_orchestrator
        if penalizers.is_required:
            penalizers.cumulate_output_tokens(newest)
        batch.forward_mode = ForwardMode.DECODE
        batch.input_ids = newest
        batch.out_cache_loc = alloc_for_decode(batch, token_per_req=1)  # before the lengths grow
        batch.seq_lens.add_(1)
        batch.seq_lens_cpu.add_(1)
        batch.orig_seq_lens.add_(1)
        batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
        batch.spec_info = None  # attention backends take "decode with spec_info" for a draft step
        worker_batch = batch.get_model_worker_batch()
        worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
        return worker_batch

    @staticmethod
    def _accept(reqs, tokens) -> list[int]:
        """What a verify step does for its accepted tokens; returns the indices of unfinished requests."""
        unfinished = []
        for i, (req, token) in enumerate(zip(reqs, tokens)):
            req.decode_batch_idx += 1
            req.output_ids.append(token)
            req.kv_committed_len += 1
            req.kv_allocated_len = req.kv_committed_len
            req.check_finished()
            if not req.finished() and req.grammar is not None:
                _advance_grammar(req, token)
            if not req.finished():
                unfinished.append(i)
        return unfinished

    def _next_draft_input(self, batch, worker_batch, old, positions, unfinished, hidden, tokens):
        """Rows of the unfinished requests only, as the scheduler expects of EAGLEWorker.

        topk_p, topk_index and hidden_states are stale until the rebuild; they keep the shapes that
        filtering and merging of batches need.
        """
        if not unfinished:
            return EagleDraftInput.create_idle_input(
                device=batch.device,
                hidden_size=batch.model_config.hidden_size,
                dtype=batch.model_config.dtype,
                topk=self.topk,
                capture_hidden_mode=CaptureHiddenMode.LAST,
            )
        reqs, rows, lens, lens_cpu = batch.reqs, batch.req_pool_indices, batch.seq_lens, batch.seq_lens_cpu
        stale = (old.topk_p, old.topk_index, old.hidden_states)
        if len(unfinished) < len(reqs):
            take = torch.tensor(unfinished, dtype=torch.int64).to(tokens.device, non_blocking=True)
            reqs = [reqs[i] for i in unfinished]
            rows, lens, positions, hidden, tokens = (
                t[take] for t in (rows, lens, positions, hidden, tokens)
            )
            lens_cpu = lens_cpu[unfinished]
            stale = tuple(t[take] for t in stale)
        new = EagleDraftInput(
            topk_p=stale[0],
            topk_index=stale[1],
            hidden_states=stale[2],
            verified_id=tokens.to(torch.int32),
            capture_hidden_mode=CaptureHiddenMode.LAST,
        )
        self.pending.record(reqs, rows, positions, hidden, tokens)
        if self.pending.full(reqs):
            self.rebuild.run(worker_batch, View(reqs, rows, lens, lens_cpu), new)
        return new


def _advance_grammar(req, token) -> None:
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


def _append_logprobs(reqs, tokens, logits) -> None:
    """EAGLEWorker fills in the logprobs of its own steps; the scheduler does not."""
    values = logits.next_token_logprobs.tolist()
    for i, req in enumerate(reqs):
        if not req.return_logprob:
            continue
        req.output_token_logprobs_val.append(values[i])
        req.output_token_logprobs_idx.append(tokens[i])
        if req.top_logprobs_num > 0:
            req.output_top_logprobs_val.append(logits.next_token_top_logprobs_val[i])
            req.output_top_logprobs_idx.append(logits.next_token_top_logprobs_idx[i])
