"""Checks the sgl_kernel stand-in against plain definitions, on random trees. Runs under the rig's Python.

Prints one JSON object: how many cases of each kind were compared, and how far sampled tokens are from the
distribution they must have. Raises AssertionError at the first difference.
"""

from __future__ import annotations

import json
import random

import sgl_kernel
import torch


def random_tree(
    rng: random.Random, topk: int, depth: int, nodes: int
) -> tuple[list[int], list[int], list[int]]:
    """A tree as the draft makes it: (selected candidates, parent list, parent node of each node).

    The first step has candidates 0..topk-1, each later one topk for each of the topk kept before it.
    `parent_list[k]` is the candidate that candidates k * topk .. k * topk + topk - 1 hang below.
    """
    parents, kept = [-1], list(range(topk))
    total = topk
    for _ in range(1, depth):
        parents += kept
        fresh = list(range(total, total + topk * topk))
        kept = sorted(rng.sample(fresh, topk))
        total += topk * topk
    selected: list[int] = []
    while len(selected) < nodes - 1:
        reachable = [
            c for c in range(total) if c not in selected and (c < topk or parents[c // topk] in selected)
        ]
        selected.append(rng.choice(reachable))
        selected.sort()
    node_of = {c: i + 1 for i, c in enumerate(selected)}
    above = [0 if c < topk else node_of[parents[c // topk]] for c in selected]
    return selected, parents, [-1, *above]


def built(
    selected: list[int], parents: list[int], lengths: list[int], topk: int, depth: int
) -> dict[str, torch.Tensor]:
    batch, n = len(lengths), len(selected) + 1
    out = {
        "mask": torch.ones(sum(n * (length + n) for length in lengths), dtype=torch.bool),
        "positions": torch.zeros(batch * n, dtype=torch.long),
        **{k: torch.full((batch, n), -1) for k in ("index", "child", "sibling")},
    }
    sgl_kernel.build_tree_kernel_efficient(
        torch.tensor([parents] * batch),
        torch.tensor([selected] * batch),
        torch.tensor(lengths),
        *(out[k] for k in ("mask", "positions", "index", "child", "sibling")),
        topk,
        depth,
        n,
    )
    return out


def ancestors(node: int, above: list[int]) -> set[int]:
    seen = {node}
    while node > 0:
        node = above[node]
        seen.add(node)
    return seen


def check_trees(rng: random.Random) -> int:
    cases = 0
    for topk, depth, nodes in ((1, 3, 4), (4, 3, 8), (2, 4, 9), (3, 3, 12)):
        for _ in range(20):
            selected, parents, above = random_tree(rng, topk, depth, nodes)
            lengths = [rng.randrange(1, 9) for _ in range(2)]
            tree = built(selected, parents, lengths, topk, depth)
            begin = 0
            for b, length in enumerate(lengths):
                rows = tree["mask"][begin : begin + nodes * (length + nodes)].view(nodes, length + nodes)
                begin += rows.numel()
                for node in range(nodes):
                    sees = {i for i in range(nodes) if rows[node, length + i]}
                    assert sees == ancestors(node, above)
                    assert tree["positions"][b * nodes + node] == length + len(sees) - 1
                    children, child = [], int(tree["child"][b, node])
                    while child != -1:
                        children.append(child)
                        child = int(tree["sibling"][b, child])
                    assert children == [i for i in range(1, nodes) if above[i] == node]
            cases += 1
    return cases


def check_greedy(rng: random.Random) -> int:
    cases = 0
    for topk, depth, nodes in ((1, 3, 4), (4, 3, 8), (2, 4, 9)):
        for _ in range(60):
            selected, parents, above = random_tree(rng, topk, depth, nodes)
            tree = built(selected, parents, [5], topk, depth)
            drafted = torch.tensor([[rng.randrange(3) for _ in range(nodes)]])
            wanted = torch.tensor([[rng.randrange(3) for _ in range(nodes)]])
            predicts = torch.full((nodes,), -1, dtype=torch.int32)
            accepted = torch.full((1, depth + 1), -1, dtype=torch.int32)
            count = torch.zeros(1, dtype=torch.int32)
            links = (tree["index"], tree["child"], tree["sibling"])
            sgl_kernel.verify_tree_greedy(predicts, accepted, count, drafted, *links, wanted)
            path, node = [0], 0
            while len(path) <= depth:
                token = int(wanted[0, node])
                match = [i for i in range(1, nodes) if above[i] == node and int(drafted[0, i]) == token]
                if not match:
                    break
                node = match[0]
                path.append(node)
            assert accepted[0, : len(path)].tolist() == path
            assert int(count) == len(path) - 1
            assert [int(predicts[i]) for i in path] == [int(wanted[0, i]) for i in path]
            cases += 1
    return cases


def sampled_distance(draws: int = 6000) -> float:
    """Total variation between the first sampled token and the target's distribution; two drafts."""
    torch.manual_seed(3)
    target = torch.tensor(
        [[0.45, 0.25, 0.15, 0.1, 0.05], [0.1, 0.2, 0.3, 0.2, 0.2], [0.3, 0.3, 0.2, 0.1, 0.1]]
    )
    index = torch.arange(draws * 3).view(draws, 3)
    child = torch.tensor([[1, -1, -1]]).repeat(draws, 1)
    sibling = torch.tensor([[-1, 2, -1]]).repeat(draws, 1)
    predicts = torch.full((draws * 3,), -1, dtype=torch.int32)
    sgl_kernel.tree_speculative_sampling_target_only(
        predicts,
        torch.full((draws, 2), -1, dtype=torch.int32),
        torch.zeros(draws, dtype=torch.int32),
        torch.tensor([[9, 1, 3]]).repeat(draws, 1),
        index,
        child,
        sibling,
        torch.rand(draws, 3),
        torch.rand(draws),
        target.repeat(draws, 1, 1).clone(),
        torch.zeros(draws, 3, 5),
    )
    first = predicts.view(draws, 3)[:, 0].long()
    seen = torch.bincount(first, minlength=5).float() / draws
    return float((seen - target[0]).abs().sum() / 2)


def check_renorm(rng: random.Random) -> int:
    cases = 0
    for _ in range(40):
        probs = torch.rand(3, 11).softmax(dim=-1)
        k, p = rng.randrange(1, 12), rng.random()
        for row, kept in zip(probs, sgl_kernel.top_k_renorm_prob(probs, k), strict=True):
            largest = set(row.topk(k).indices.tolist())
            assert {i for i in range(11) if kept[i] > 0} == largest
            assert torch.allclose(kept[kept > 0], row[kept > 0] / row[kept > 0].sum())
        for row, kept in zip(probs, sgl_kernel.top_p_renorm_prob(probs, p), strict=True):
            mass, expected = 0.0, set()
            for i in row.argsort(descending=True).tolist():
                if mass >= p:
                    break
                expected.add(i)
                mass += float(row[i])
            assert {i for i in range(11) if kept[i] > 0} == expected
        cases += 1
    return cases


def main() -> None:
    rng = random.Random(7)
    torch.manual_seed(7)
    found = {"trees": check_trees(rng), "greedy": check_greedy(rng), "renorm": check_renorm(rng)}
    print(json.dumps({**found, "sampled_distance": sampled_distance()}))


if __name__ == "__main__":
    main()
