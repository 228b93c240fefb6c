"""Rows of unlike length in one tensor: token ids, and the caches of prompts that were read apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token ids (rows, longest) padded on the left, and the mask of what is not padding."""
    import torch

    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, given in enumerate(rows):
        ids[row, longest - len(given) :] = torch.tensor(given)
        mask[row, longest - len(given) :] = 1
    return ids, mask


def joined(caches: Sequence[Any], masks: Sequence[Tensor], config: Any) -> tuple[Any, Tensor]:
    """One cache and one mask of several, each padded on the left to the longest; their rows in this order.

    Keys were turned by their positions when they were made, so where they stand in the cache does not matter.
    """
    import torch
    from torch.nn.functional import pad
    from transformers import DynamicCache

    if len(caches) == 1:
        return caches[0], masks[0]
    longest = max(mask.shape[1] for mask in masks)

    def together(parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([pad(part, (0, 0, longest - part.shape[2], 0)) for part in parts])

    layers = [
        (together([layer.keys for layer in same]), together([layer.values for layer in same]))
        for same in zip(*(cache.layers for cache in caches), strict=True)
    ]
    mask = torch.cat([pad(mask, (longest - mask.shape[1], 0)) for mask in masks])
    return DynamicCache(layers, config=config), mask
