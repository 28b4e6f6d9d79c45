"""Turn the mask of a draft tree into the links between its tokens."""

from __future__ import annotations

from typing import Any

import torch

Tensor = Any


def reconstruct_indices_from_tree_mask(
    tree_mask: Tensor,
    seq_len: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    batch_size: int,
    width: int,
) -> None:
    """Fill in each token's position, its first child and its next sibling, -1 for none; a token sees its ancestors."""
    order = torch.arange(width)
    sees = tree_mask.reshape(batch_size, width, width).bool() & (order[None, :] < order[:, None])
    positions.view(batch_size, width).copy_(sees.sum(-1) + seq_len.view(batch_size, 1))
    retrieve_index.view(batch_size, width).copy_(torch.arange(batch_size * width).view(batch_size, width))
    children, siblings = (each.view(batch_size, width) for each in (retrieve_next_token, retrieve_next_sibling))
    for i in range(batch_size):
        parents = [max((j for j in range(token) if sees[i, token, j]), default=-1) for token in range(width)]
        for token, parent in enumerate(parents):
            later = range(token + 1, width)
            children[i, token] = next((each for each in later if parents[each] == token), -1)
            siblings[i, token] = next((each for each in later if parent >= 0 and parents[each] == parent), -1)
