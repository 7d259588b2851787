"""Stand-in for the `sgl_kernel` wheel, which exists for CUDA only.

Plain Python over tiny tensors, for the functions that speculative decoding calls. What each must do is
defined by its CUDA original (sgl-kernel, csrc/speculative); here clarity is worth more than speed.

A draft tree has `n` nodes per request: node 0 is the newest token, nodes 1..n-1 are drafted tokens.
`retrive_index[b, i]` is node i's row in the flattened batch; `retrive_next_token[b, i]` its first child and
`retrive_next_sibling[b, i]` the next child of the same parent, -1 where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

FULL_MASK, QLEN_ONLY = 0, 1


def _parents(selected: list[int], parent_list: list[int], topk: int) -> list[int]:
    """Parent node of each node. A candidate `c` hangs below step-parent c // topk; number 0 is the root."""
    parents = [-1]
    for candidate in selected:
        above = candidate // topk
        parents.append(0 if above == 0 else selected.index(parent_list[above]) + 1)
    return parents


def build_tree_kernel_efficient(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int = FULL_MASK,
) -> None:
    """Fill positions, links and the part of the tree mask that covers the tree itself.

    The mask's prefix columns are the caller's (all True). FULL_MASK rows are seq_len + n wide,
    QLEN_ONLY rows n.
    """
    if int(tree_mask_mode) not in (FULL_MASK, QLEN_ONLY):
        raise NotImplementedError("packed tree masks are not on the CPU rig")
    n = draft_token_num
    begin = 0
    for b, length in enumerate(verified_seq_len.tolist()):
        parents = _parents(selected_index[b].tolist(), parent_list[b].long().tolist(), topk)
        level = [0] * n
        sees = torch.eye(n, dtype=torch.bool)
        for node in range(1, n):
            level[node] = level[parents[node]] + 1
            sees[node] |= sees[parents[node]]
        child, sibling = [-1] * n, [-1] * n
        for node in range(n - 1, 0, -1):
            sibling[node], child[parents[node]] = child[parents[node]], node
        positions[b * n : (b + 1) * n] = torch.tensor([length + step for step in level])
        retrive_index[b] = torch.arange(b * n, (b + 1) * n)
        retrive_next_token[b] = torch.tensor(child)
        retrive_next_sibling[b] = torch.tensor(sibling)
        width = length + n if int(tree_mask_mode) == FULL_MASK else n
        rows = tree_mask[begin : begin + n * width].view(n, width)
        rows[:, width - n :] = sees.to(tree_mask.dtype)
        begin += n * width


class _Tree:
    """One request's tree while a walk goes from the root towards a leaf."""

    def __init__(self, b: int, candidates: torch.Tensor, *links: torch.Tensor) -> None:
        self.tokens: list[int] = candidates[b].tolist()
        self.rows, self.child, self.sibling = (link[b].tolist() for link in links)

    def children(self, node: int) -> Iterator[int]:
        node = self.child[node]
        while node != -1:
            yield node
            node = self.sibling[node]


def verify_tree_greedy(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Accept, from the root on, every drafted token that the target would have chosen itself."""
    wanted = target_predict.flatten().tolist()
    for b in range(accept_index.shape[0]):
        tree = _Tree(b, candidates, retrive_index, retrive_next_token, retrive_next_sibling)
        node, accepted = 0, [tree.rows[0]]
        while len(accepted) < accept_index.shape[1]:
            token = wanted[tree.rows[node]]
            predicts[tree.rows[node]] = token
            match = next((c for c in tree.children(node) if tree.tokens[c] == token), None)
            if match is None:
                break
            node = match
            accepted.append(tree.rows[node])
        predicts[tree.rows[node]] = wanted[tree.rows[node]]  # the target's own next token
        accept_index[b, : len(accepted)] = torch.tensor(accepted)
        accept_token_num[b] = len(accepted) - 1


def tree_speculative_sampling_target_only(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Sample along the tree so that the result is distributed as the target alone would sample.

    Children of a node are tried in order, one coin for all of them: a child is taken once the target's
    probability summed over the children tried so far reaches the coin. When none is taken, the last token is
    drawn from what is left of the target's distribution.
    """
    scale = max(threshold_acc, 1e-9)
    for b in range(accept_index.shape[0]):
        tree = _Tree(b, candidates, retrive_index, retrive_next_token, retrive_next_sibling)
        node, accepted = 0, [tree.rows[0]]
        coin = float(uniform_samples[b, 0])
        while len(accepted) < accept_index.shape[1]:
            summed, taken = 0.0, None
            for child in tree.children(node):
                token = tree.tokens[child]
                probability = float(target_probs[b, node, token])
                summed += probability
                if coin <= summed / scale or probability >= threshold_single:
                    taken = child
                    break
                draft_probs[b, node, token] = target_probs[b, node, token]
            if taken is None:
                break
            predicts[tree.rows[node]] = tree.tokens[taken]
            node, coin = taken, float(uniform_samples[b, taken])
            accepted.append(tree.rows[node])
        left = target_probs[b, node]
        if len(accepted) < accept_index.shape[1]:
            left = (left - draft_probs[b, node]).clamp_min(0)
        mass = left.cumsum(0)
        drawn = int((mass <= float(uniform_samples_for_final_sampling[b]) * float(mass[-1])).sum())
        predicts[tree.rows[node]] = min(drawn, left.numel() - 1)
        accept_index[b, : len(accepted)] = torch.tensor(accepted)
        accept_token_num[b] = len(accepted) - 1


def _per_row(value: torch.Tensor | float, probs: torch.Tensor) -> torch.Tensor:
    return value.view(-1, 1) if torch.is_tensor(value) else torch.full((probs.shape[0], 1), value)


def top_k_renorm_prob(probs: torch.Tensor, top_k: torch.Tensor | int) -> torch.Tensor:
    """Keep the k most probable tokens of each row (ties too) and renormalise."""
    k = _per_row(top_k, probs).clamp(1, probs.shape[-1]).long()
    smallest = probs.sort(dim=-1, descending=True).values.gather(1, k - 1)
    kept = probs.masked_fill(probs < smallest, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


def top_p_renorm_prob(probs: torch.Tensor, top_p: torch.Tensor | float) -> torch.Tensor:
    """Keep the most probable tokens of each row until their mass reaches p, and renormalise."""
    ordered, where = probs.sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered
    ordered = ordered.masked_fill(before >= _per_row(top_p, probs), 0.0)
    kept = torch.zeros_like(probs).scatter_(1, where, ordered)
    return kept / kept.sum(dim=-1, keepdim=True)


top_k_renorm_probs, top_p_renorm_probs = top_k_renorm_prob, top_p_renorm_prob
