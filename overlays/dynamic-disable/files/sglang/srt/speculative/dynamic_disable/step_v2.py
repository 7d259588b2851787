"""The plain step under EAGLEWorkerV2: overlap on, the worker sees a ModelWorkerBatch it must not change."""

from __future__ import annotations

import dataclasses

import torch

from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
from sglang.srt.speculative.dynamic_disable.controller import Controller
from sglang.srt.speculative.dynamic_disable.rebuild import View
from sglang.srt.speculative.eagle_info import EagleDraftInput


class PlainStepV2(Controller):
    def __init__(self, worker, draft_runner, values):
        super().__init__(worker, draft_runner, values)
        self.device_module = torch.get_device_module(worker.device)
        self._window = torch.arange(-self.pending.width, 1, device=worker.device)
        self._ones = torch.ones(self.req_to_token.shape[0], dtype=torch.int32, device=worker.device)

    def prepare_decode(self, batch) -> None:
        """Read the KV slots of the newest tokens and of the next one: [n, width + 1] in out_cache_loc.

        They must be read on the scheduler's stream. Once a finished request's row of the pool is given to a
        new request, the scheduler rewrites the row, and nothing orders that write after a step in flight on
        the forward stream that still has the finished request in its batch.
        """
        if self.switch.would_be_off(batch.batch_size()) or self.pending.any(batch.reqs):
            columns = batch.seq_lens.to(torch.int64)[:, None] + self._window
            rows = batch.req_pool_indices.to(torch.int64)[:, None]
            batch.out_cache_loc = self.req_to_token[rows, columns.clamp(min=0)].to(torch.int64)

    @staticmethod
    def drop_unread(reqs, result) -> None:
        """Forget the target's hidden states once the draft has read them.

        The scheduler copies what it finds to the host: at every step, and for a prefill of 8192 tokens under
        EAGLE3 with an 8B model 200 MB. Only requests that ask for hidden states read the copy.
        """
        if not any(req.return_hidden_states for req in reqs):
            result.logits_output.hidden_states = None

    def step(self, batch):
        """Run this decode step without speculation, or return None when the worker must speculate.

        Args:
            batch: ModelWorkerBatch; its `spec_info` is the resolved EagleDraftInput of the last step.
        """
        n = len(batch.seq_lens)
        if batch.forward_mode.is_idle() or n == 0 or batch.spec_info is None:
            return None
        if self.decide(n):
            return self._plain(batch)
        if self.pending.any(batch.reqs):
            batch.out_cache_loc.record_stream(self.device_module.current_stream())
            view = View(
                batch.reqs, batch.req_pool_indices, batch.seq_lens, batch.seq_lens_cpu, batch.out_cache_loc[:, :-1]
            )
            self.rebuild.run(batch, view, batch.spec_info)
        return None

    def _plain(self, batch):
        draft_input, reqs, slots = batch.spec_info, batch.reqs, batch.out_cache_loc
        # both were allocated on the scheduler's stream and are used on this one
        stream = self.device_module.current_stream()
        slots.record_stream(stream)
        batch.seq_lens.record_stream(stream)
        new_lens = batch.seq_lens + 1
        # The lengths after this step are known before its forward, so the scheduler need not wait for it.
        lens_known = self.device_module.Event()
        lens_known.record()

        plain = dataclasses.replace(
            batch,
            input_ids=draft_input.verified_id.to(torch.int64),
            # nothing to allocate: preparing the step reserved at least two speculative steps of slots
            out_cache_loc=slots[:, -1].contiguous(),
            seq_lens=new_lens,
            seq_lens_cpu=batch.seq_lens_cpu + 1,
            seq_lens_sum=batch.seq_lens_sum + len(reqs),
            spec_info=None,  # attention backends take "decode with spec_info" for a draft step
            return_logprob=False,  # this worker reports no logprobs of decoded tokens, on or off
            capture_hidden_mode=CaptureHiddenMode.FULL,
        )
        # This worker's scheduler never cumulates penalties; min_new_tokens would mask stop tokens for ever.
        plain.sampling_info.acc_linear_penalties = None
        out = self.forward_target(plain)
        logits, tokens = out.logits_output, out.next_token_ids

        # topk_p, topk_index and hidden_states are stale until the rebuild; the future map needs their shapes
        new = EagleDraftInput(
            topk_p=draft_input.topk_p,
            topk_index=draft_input.topk_index,
            hidden_states=draft_input.hidden_states,
            verified_id=tokens.to(torch.int32),
            new_seq_lens=new_lens,
            verify_done=lens_known,
        )
        self.pending.record(reqs, batch.req_pool_indices, batch.seq_lens, logits.hidden_states, tokens)
        if self.pending.full(reqs):
            view = View(reqs, batch.req_pool_indices, new_lens, plain.seq_lens_cpu, slots)
            self.rebuild.run(plain, view, new)
        result = self._result(logits, tokens, new, out.can_run_cuda_graph)
        self.drop_unread(reqs, result)
        return result

    def _result(self, logits, tokens, draft_input, used_graph):
        """Tokens padded to the worker's stride, by which the scheduler slices the result one step later."""
        stride = self.worker.speculative_num_draft_tokens
        padded = torch.nn.functional.pad(draft_input.verified_id[:, None], (0, stride - 1))
        return GenerationBatchResult(
            logits_output=logits,
            next_token_ids=padded.flatten(),
            can_run_cuda_graph=used_graph,
            next_draft_input=draft_input,
            accept_lens=self._ones[: len(tokens)],
            spec_off=True,
        )
