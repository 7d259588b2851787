"""Attention in plain torch for the two entry points that SGLang's triton backend calls.

Only the inner product is replaced. What surrounds it stays SGLang's own: metadata, kv_indptr and kv_indices,
tree masks, writes into the KV pool. An argument that asks for a feature which is not here raises
NotImplementedError instead of being ignored.

Shapes: q [tokens, heads, dim]; k and v buffers [slots, kv heads, dim]; the indptrs [requests + 1].
"""

from __future__ import annotations

from typing import Any

import torch


def _refuse(**features: Any) -> None:
    for name, value in features.items():
        neutral = value is None or value is False or (name.endswith("_scale") and float(value) == 1.0)
        if not neutral:
            raise NotImplementedError(f"plain attention has no {name} (asked for {value!r})")


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, visible: torch.Tensor | None = None
) -> torch.Tensor:
    """softmax(q k / scale) v for one request; `visible` [queries, keys] is True where a query may look."""
    repeat = q.shape[1] // k.shape[1]
    if repeat > 1:
        k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q.float(), k.float()) * scale
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), v.float()).to(q.dtype)


def decode_attention_fwd(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    o: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    attn_logits: torch.Tensor,
    attn_lse: torch.Tensor,
    num_kv_splits: torch.Tensor,
    max_kv_splits: int,
    sm_scale: float,
    logit_cap: float = 0.0,
    sinks: Any = None,
    xai_temperature_len: int = -1,
    **more: Any,
) -> None:
    """One query per request. The scratch buffers of the split kernel are not used."""
    _refuse(sinks=sinks, logit_cap=logit_cap or None, xai=None if xai_temperature_len < 0 else True, **more)
    starts = kv_indptr.tolist()
    for row in range(q.shape[0]):
        slots = kv_indices[starts[row] : starts[row + 1]].long()
        o[row : row + 1] = _attend(q[row : row + 1], k_buffer[slots], v_buffer[slots], sm_scale)


def extend_attention_fwd(
    q_extend: torch.Tensor,
    k_extend: torch.Tensor,
    v_extend: torch.Tensor,
    o_extend: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    custom_mask: torch.Tensor | None,
    is_causal: bool,
    mask_indptr: torch.Tensor | None,
    max_len_extend: int,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    skip_prefix_custom_mask: bool = True,
    sliding_window_size: int = -1,
    sinks: Any = None,
    window_kv_offsets: Any = None,
    xai_temperature_len: int = -1,
    **more: Any,
) -> None:
    """Many queries per request over a cached prefix (kv_indices) and the new tokens themselves."""
    _refuse(
        sinks=sinks,
        logit_cap=logit_cap or None,
        xai=None if xai_temperature_len < 0 else True,
        sliding_window=None if (sliding_window_size or -1) < 0 else sliding_window_size,
        **more,
    )
    scale = sm_scale or q_extend.shape[-1] ** -0.5
    k_extend = k_extend.view(k_extend.shape[0], k_buffer.shape[1], -1)
    v_extend = v_extend.view(v_extend.shape[0], v_buffer.shape[1], -1)
    q_starts, kv_starts = qo_indptr.tolist(), kv_indptr.tolist()
    for row in range(len(q_starts) - 1):
        new = slice(q_starts[row], q_starts[row + 1])
        count = new.stop - new.start
        if count == 0:
            continue
        slots = kv_indices[kv_starts[row] : kv_starts[row + 1]].long()
        prefix = slots.numel()
        visible = torch.ones((count, prefix + count), dtype=torch.bool)
        if custom_mask is not None:
            assert mask_indptr is not None
            first = int(mask_indptr[row])
            mask = custom_mask[first : first + visible.numel()].view_as(visible).bool()
            kept = prefix if skip_prefix_custom_mask else 0
            visible[:, kept:] = mask[:, kept:]
        elif is_causal:
            visible[:, prefix:] = torch.ones((count, count), dtype=torch.bool).tril()
        k = torch.cat([k_buffer[slots].to(k_extend.dtype), k_extend[new]])
        v = torch.cat([v_buffer[slots].to(v_extend.dtype), v_extend[new]])
        o_extend[new] = _attend(q_extend[new], k, v, scale, visible)
