"""The draft model's KV cache brought up to date: one ragged EXTEND over all pending pairs."""

from __future__ import annotations

import dataclasses

import torch

from sglang.srt.layers.moe.utils import (
    speculative_moe_a2a_backend_context,
    speculative_moe_backend_context,
)
from sglang.srt.model_executor.forward_batch_info import (
    CaptureHiddenMode,
    ForwardBatch,
    ForwardMode,
)
from sglang.srt.speculative.eagle_info import EagleDraftInput
from sglang.srt.speculative.spec_utils import fast_topk


@dataclasses.dataclass
class View:
    """The requests of one step as the rebuild needs them; all on the device but `reqs` and `lens_cpu`."""

    reqs: list
    rows: torch.Tensor  # [n] row in the request pool
    lens: torch.Tensor  # [n] tokens that have target KV
    lens_cpu: torch.Tensor  # [n] the same on the host
    # [n, w] KV slots of the tokens up to position lens - 1, newest last; None: read them from the pool
    slots: torch.Tensor | None = None


class Rebuild:
    """Runs the draft model. Counts are kept in `runs` and `tokens`."""

    def __init__(self, draft_worker, draft_runner, topk: int, pending, req_to_token):
        self.draft_worker = draft_worker
        self.draft_runner = draft_runner
        self.topk = topk
        self.pending = pending
        self.req_to_token = req_to_token
        self.runs = 0
        self.tokens = 0

    def run(self, template, view: View, draft_input: EagleDraftInput) -> None:
        """Write the draft KV of all pending pairs of `view` and refresh those rows of `draft_input`.

        Rows without pending pairs (prefilled since) keep what they have. `template` is the step's
        ModelWorkerBatch; it is not changed.
        """
        pending = self.pending
        index = [i for i, req in enumerate(view.reqs) if pending.count(req)]
        if not index:
            return
        counts = [pending.count(view.reqs[i]) for i in index]
        total, device = sum(counts), view.lens.device
        all_rows = len(index) == len(view.reqs)
        take = torch.tensor(index, dtype=torch.int64).to(device, non_blocking=True)
        count = torch.tensor(counts, dtype=torch.int64).to(device, non_blocking=True)
        rows = view.rows if all_rows else view.rows[take]
        lens = view.lens if all_rows else view.lens[take]
        lens_cpu = view.lens_cpu if all_rows else view.lens_cpu[index]

        # token t of the ragged batch belongs to request owner[t] and lies back[t] >= 1 tokens before its end
        owner = torch.repeat_interleave(torch.arange(len(index), device=device), count, output_size=total)
        back = torch.cumsum(count, 0)[owner] - torch.arange(total, device=device)
        position = lens[owner].to(torch.int64) - back
        row = rows[owner].to(torch.int64)
        if view.slots is None:
            slots = self.req_to_token[row, position].to(torch.int64)
        else:
            slots = view.slots[take[owner], view.slots.shape[1] - back]
        ring = position % pending.width
        tokens = pending.tokens[row, ring]

        batch = dataclasses.replace(
            template,
            forward_mode=ForwardMode.EXTEND,
            input_ids=tokens,
            req_pool_indices=rows,
            seq_lens=lens,
            seq_lens_cpu=lens_cpu,
            seq_lens_sum=int(lens_cpu.sum()),
            out_cache_loc=slots,
            extend_num_tokens=total,
            extend_seq_lens=counts,
            extend_prefix_lens=[int(n) - c for n, c in zip(lens_cpu, counts)],
            extend_logprob_start_lens=None,
            extend_input_logprob_token_ids=None,
            return_logprob=False,
            multimodal_inputs=None,  # pending tokens were generated, so they are text
            spec_info=EagleDraftInput(
                hidden_states=pending.hidden[row, ring],
                verified_id=tokens,
                num_tokens_per_req=1,
                num_tokens_for_logprob_per_req=1,
            ),
            capture_hidden_mode=CaptureHiddenMode.LAST,
        )
        with self.draft_worker.draft_tp_context(
            self.draft_runner.tp_group
        ), speculative_moe_backend_context(), speculative_moe_a2a_backend_context():
            forward_batch = ForwardBatch.init_new(batch, self.draft_runner)
            out = self.draft_runner.forward(forward_batch).logits_output
        probs = torch.softmax(out.next_token_logits, dim=-1)
        topk_p, topk_index = fast_topk(probs, self.topk, dim=-1)
        fresh = {"topk_p": topk_p, "topk_index": topk_index, "hidden_states": out.hidden_states}
        for name, value in fresh.items():
            old = getattr(draft_input, name)
            if all_rows:
                setattr(draft_input, name, value.to(old.dtype))
            else:
                # a copy: the old tensor may still be read by the step in flight
                setattr(draft_input, name, old.index_copy(0, take, value.to(old.dtype)))
        pending.forget([view.reqs[i] for i in index])
        self.runs += 1
        self.tokens += total
