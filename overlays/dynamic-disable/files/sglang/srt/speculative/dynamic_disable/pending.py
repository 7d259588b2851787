"""What the draft model has not seen yet.

The entry of the draft model's KV cache at position p is a function of the target's hidden state at p and of
the token at p + 1. A plain decode step at p produces both. They are kept here until `rebuild` turns them into
draft KV.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _record(hidden, tokens, rows, positions, ring_hidden, ring_tokens, size, width, BLOCK: tl.constexpr):
    """One launch instead of eight: at large batches a plain step is short enough for launches to count."""
    i, block = tl.program_id(0), tl.program_id(1)
    slot = tl.load(rows + i).to(tl.int64) * width + tl.load(positions + i).to(tl.int64) % width
    columns = block * BLOCK + tl.arange(0, BLOCK)
    inside = columns < size
    values = tl.load(hidden + i.to(tl.int64) * size + columns, mask=inside)
    tl.store(ring_hidden + slot * size + columns, values, mask=inside)
    if block == 0:
        tl.store(ring_tokens + slot, tl.load(tokens + i).to(tl.int64))


class PendingPairs:
    """The newest pairs of every request, in a ring for each row of the request pool.

    A pair at position p lies in slot p % width, so a request's sequence length alone says where its pairs
    are, and recording needs nothing from the host. How many there are is known on the host without a
    synchronisation: a plain step adds exactly one for each request, and a prefill leaves none.

    Shapes: hidden [rows, width, target hidden size] (allocated with the first pair), tokens [rows, width].
    """

    def __init__(self, rows: int, width: int, keep_all: bool, device):
        self.width = width
        self.keep_all = keep_all  # False: only the newest pair counts, older ones are given up
        self.counts = [0] * rows
        self.hidden = None
        self.tokens = torch.zeros((rows, width), dtype=torch.int64, device=device)

    def record(self, reqs, rows, positions, hidden, tokens) -> None:
        """Add one pair for each request. `rows`, `positions`, `tokens`: [n] device; `hidden`: [n, size]."""
        if self.hidden is None:
            shape = (self.tokens.shape[0], self.width, hidden.shape[-1])
            self.hidden = torch.zeros(shape, dtype=hidden.dtype, device=hidden.device)
        size, block = hidden.shape[-1], 2048
        _record[(len(reqs), triton.cdiv(size, block))](
            hidden.contiguous(), tokens, rows, positions, self.hidden, self.tokens, size, self.width, BLOCK=block
        )
        most = self.width if self.keep_all else 1
        for row in _rows(reqs):
            self.counts[row] = min(self.counts[row] + 1, most)

    def forget(self, reqs) -> None:
        """These requests have nothing pending: a prefill or a rebuild wrote all of their draft KV."""
        for row in _rows(reqs):
            self.counts[row] = 0

    def count(self, req) -> int:
        return 0 if req.req_pool_idx is None else self.counts[req.req_pool_idx]

    def any(self, reqs) -> bool:
        return any(self.counts[row] for row in _rows(reqs))

    def full(self, reqs) -> bool:
        """The next pair of one of these requests would overwrite one that is needed."""
        return self.keep_all and any(self.counts[row] >= self.width for row in _rows(reqs))


def _rows(reqs):
    """Rows of the requests that have one: a request that finished after its batch was made has lost its row."""
    return [req.req_pool_idx for req in reqs if req.req_pool_idx is not None]
