"""The plain step under EAGLEWorker: overlap off, the worker changes the ScheduleBatch itself.

A plain step is launched before the host has the tokens of the one before it (see in_flight). So while
speculation is off, lengths, KV slots and `verified_id` of a batch count the launched step in; `output_ids` and
`kv_committed_len` of its requests follow one call later, and what lies between belongs to `kv_allocated_len`.
"""

from __future__ import annotations

import torch

from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.common import alloc_for_decode
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardMode
from sglang.srt.speculative.dynamic_disable.controller import Controller
from sglang.srt.speculative.dynamic_disable.in_flight import InFlight, Launched
from sglang.srt.speculative.dynamic_disable.rebuild import View
from sglang.srt.speculative.eagle_info import EagleDraftInput


class PlainStepV1(Controller):
    def __init__(self, worker, draft_runner, values):
        super().__init__(worker, draft_runner, values)
        self.in_flight = InFlight()

    def after_extend(self, reqs) -> None:
        super().after_extend(reqs)
        self.in_flight.forget(reqs)

    def known_sum(self, batch):
        return int(batch.seq_lens_cpu.sum()) if self.in_flight else None

    def step(self, batch):
        """Run this decode step without speculation, or return None when the worker must speculate.

        Args:
            batch: ScheduleBatch; its `spec_info` is the EagleDraftInput of the last step.
        """
        if batch.forward_mode.is_idle() or not batch.reqs:
            return None
        if self.in_flight and not self.switch.would_be_off(batch.batch_size()):
            return self._land(batch)
        if self.decide(batch.batch_size()):
            return self._plain(batch)
        if self.pending.any(batch.reqs):
            view = View(batch.reqs, batch.req_pool_indices, batch.seq_lens, batch.seq_lens_cpu)
            self.rebuild.run(batch.get_model_worker_batch(), view, batch.spec_info)
        return None

    def _plain(self, batch):
        old = batch.spec_info
        positions = batch.seq_lens.clone()  # of the newest token, whose KV is not written yet
        worker_batch = self._prepare(batch, old.verified_id.to(torch.int64))
        out = self.forward_target(worker_batch)
        logits, tokens = out.logits_output, out.next_token_ids
        # set by the sampler for grammars; a later verify step would apply it to its own logits
        batch.sampling_info.vocab_mask = None

        launched = Launched(batch.reqs, tokens, logits if batch.return_logprob else None)
        self.in_flight.hand_over(batch.reqs)  # of the step before, while this one runs
        if _needed_at_once(batch.reqs, logits):
            launched.hand_over(batch.reqs)
        else:
            self.in_flight.hold(launched)

        # topk_p, topk_index and hidden_states are stale until the rebuild; filtering and merging of batches
        # need their shapes
        batch.spec_info = EagleDraftInput(
            topk_p=old.topk_p,
            topk_index=old.topk_index,
            hidden_states=old.hidden_states,
            verified_id=tokens.to(torch.int32),
            capture_hidden_mode=CaptureHiddenMode.LAST,
        )
        unfinished, take = self._keep_unfinished(batch)
        if unfinished:
            reqs, lens_cpu = batch.reqs, batch.seq_lens_cpu
            kept = (batch.req_pool_indices, batch.seq_lens, positions, logits.hidden_states, tokens)
            if take is not None:
                reqs, lens_cpu = [reqs[i] for i in unfinished], lens_cpu[unfinished]
                kept = tuple(t[take] for t in kept)
            rows, lens, positions, hidden, newest = kept
            self.pending.record(reqs, rows, positions, hidden, newest)
            if self.pending.full(reqs):
                self.rebuild.run(worker_batch, View(reqs, rows, lens, lens_cpu), batch.spec_info)
        return _result(batch, logits, tokens, out.can_run_cuda_graph)

    def _land(self, batch):
        """Hand over what is in flight and launch nothing: a verify step goes on from text that the host has."""
        self.in_flight.hand_over(batch.reqs)
        tokens = batch.spec_info.verified_id
        self._keep_unfinished(batch)
        return _result(batch, LogitsProcessorOutput(next_token_logits=None), tokens, False)

    def _prepare(self, batch, newest):
        """What preparing a plain decode step does: penalties, one KV slot a request, lengths plus one."""
        penalizers = batch.sampling_info.penalizer_orchestrator
        if penalizers.is_required:
            penalizers.cumulate_output_tokens(newest)
        batch.forward_mode = ForwardMode.DECODE
        batch.input_ids = newest
        batch.out_cache_loc = alloc_for_decode(batch, token_per_req=1)  # before the lengths grow
        for req in batch.reqs:
            req.kv_allocated_len += 1
        batch.seq_lens.add_(1)
        batch.seq_lens_cpu.add_(1)
        batch.orig_seq_lens.add_(1)
        batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
        batch.spec_info = None  # attention backends take "decode with spec_info" for a draft step
        worker_batch = batch.get_model_worker_batch()
        worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
        return worker_batch

    def _keep_unfinished(self, batch):
        """Leave in `spec_info` the rows of unfinished requests only, as the scheduler expects of EAGLEWorker.

        Returns:
            (indices of the unfinished requests, the same on the device or None when that is all of them)
        """
        for req in batch.reqs:
            if req.to_finish:  # aborted; the scheduler is going to ask again once it has this step's result
                req.check_finished()
        unfinished = [i for i, req in enumerate(batch.reqs) if not req.finished()]
        if not unfinished:
            self.in_flight.forget()
            batch.spec_info = EagleDraftInput.create_idle_input(
                device=batch.device,
                hidden_size=batch.model_config.hidden_size,
                dtype=batch.model_config.dtype,
                topk=self.topk,
                capture_hidden_mode=CaptureHiddenMode.LAST,
            )
        if not unfinished or len(unfinished) == len(batch.reqs):
            return unfinished, None
        take = torch.tensor(unfinished, dtype=torch.int64).to(batch.device, non_blocking=True)
        batch.spec_info.filter_batch(take, has_been_filtered=False)
        return unfinished, take


def _needed_at_once(reqs, logits) -> bool:
    """The next step needs this one's tokens on the host, or the scheduler takes more than tokens from it."""
    return logits.customized_info is not None or any(
        req.grammar is not None or req.return_hidden_states for req in reqs
    )


def _result(batch, logits, tokens, used_graph):
    return GenerationBatchResult(
        logits_output=logits,
        next_token_ids=tokens,
        num_accepted_tokens=0,
        accept_length_per_req_cpu=[0] * len(batch.reqs),
        can_run_cuda_graph=used_graph,
        spec_off=True,
    )
