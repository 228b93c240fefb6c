"""A batch whose rows come and go while it is computed; prompts of unlike length are padded on the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from automem.models.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from torch import Tensor

#: Prompts read together, those of like length: little is spent on padding.
_READ = 8


class Batch:
    """What a model has read of each row: one cache, one mask. Rows are numbered in the order they came in.

    `prefixes` outlives the batch: what it knows of a prompt is not read again.
    """

    def __init__(self, model: Any, prefixes: PrefixCache) -> None:
        self._model = model
        self._prefixes = prefixes
        self._cache: Any = None
        self._mask: Any = None

    def unread(self, ids: Sequence[int]) -> int:
        """How many tokens of a prompt `read` would have to compute."""
        return len(ids) - self._prefixes.known(ids)

    def read(self, prompts: Sequence[Sequence[int]]) -> np.ndarray:
        """Read prompts as further rows; the logits (prompts, vocabulary) of what follows each, in float64.

        Prompts that come sorted by what is `unread` of them waste least on padding.
        """
        import torch

        parts = [] if self._cache is None else [(self._cache, self._mask)]
        found = []
        for first in range(0, len(prompts), _READ):
            group = prompts[first : first + _READ]
            earlier = [self._prefixes.find(ids) for ids in group]
            cache, known = _recalled(earlier, self._model.config)
            ids, fresh = _padded([ids[_length(read) :] for ids, read in zip(group, earlier, strict=True)])
            mask = torch.cat([known, fresh], dim=1)
            found.append(self._logits(ids, mask, cache))
            self._remember(group, mask, cache)
            parts.append((cache, mask))
        self._cache, self._mask = _joined(parts, self._model.config)
        return np.concatenate(found)

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        """Add a token to each row; the logits of what follows, as `read` gives them."""
        import torch

        ids = torch.tensor(tokens)[:, None]
        self._mask = torch.cat([self._mask, torch.ones_like(ids)], dim=1)
        return self._logits(ids, self._mask, self._cache)

    def keep(self, rows: Sequence[int]) -> None:
        """Let all other rows go, and the columns that only they had."""
        if not rows:
            self._cache = self._mask = None
            return
        mask = self._mask[list(rows)]
        first = int(mask.any(dim=0).nonzero()[0])
        self._mask = mask[:, first:]
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys[rows, :, first:], layer.values[rows, :, first:]

    def _remember(self, prompts: Sequence[Sequence[int]], mask: Tensor, cache: Any) -> None:
        """Let later prompts that begin as these do without reading them."""
        import torch

        read = torch.stack([torch.stack([layer.keys, layer.values]) for layer in cache.layers])
        for row, ids in enumerate(prompts):
            self._prefixes.add(ids, read[:, :, row, :, mask[row].bool()])

    def _logits(self, ids: Tensor, mask: Tensor, cache: Any) -> np.ndarray:
        """Logits of what follows `ids`, the newest tokens under `mask`; `cache` grows by them."""
        import torch

        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        out = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: np.ndarray = out.logits[:, -1].to(torch.float64).numpy()
        return logits


def _padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token ids (rows, longest) padded on the left, and the mask of what is not padding."""
    import torch

    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, given in enumerate(rows):
        ids[row, longest - len(given) :] = torch.tensor(given)
        mask[row, longest - len(given) :] = 1
    return ids, mask


def _length(read: Tensor | None) -> int:
    return 0 if read is None else read.shape[-2]


def _recalled(reads: Sequence[Tensor | None], config: Any) -> tuple[Any, Tensor]:
    """A cache and its mask (rows, longest) of what is known of each row, padded on the left."""
    import torch
    from torch.nn.functional import pad
    from transformers import DynamicCache

    longest = max(map(_length, reads))
    mask = torch.tensor([[0] * (longest - _length(read)) + [1] * _length(read) for read in reads], dtype=torch.long)
    if not longest:
        return DynamicCache(config=config), mask.reshape(len(reads), 0)
    nothing = next(read for read in reads if read is not None)[..., :0, :]
    rows = [nothing if read is None else read for read in reads]
    known = torch.stack([pad(read, (0, 0, longest - _length(read), 0)) for read in rows], dim=2)
    return DynamicCache([(layer[0], layer[1]) for layer in known], config=config), mask


def _joined(parts: Sequence[tuple[Any, Tensor]], config: Any) -> tuple[Any, Tensor]:
    """One cache and one mask of several, each padded on the left to the longest; their rows in this order.

    Keys were turned by their positions when they were made, so where they stand in the cache does not matter.
    """
    import torch
    from torch.nn.functional import pad
    from transformers import DynamicCache

    if len(parts) == 1:
        return parts[0]
    longest = max(mask.shape[1] for _, mask in parts)

    def together(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([pad(tensor, (0, 0, longest - tensor.shape[2], 0)) for tensor in tensors])

    layers = [
        (together([layer.keys for layer in same]), together([layer.values for layer in same]))
        for same in zip(*(cache.layers for cache, _ in parts), strict=True)
    ]
    mask = torch.cat([pad(mask, (longest - mask.shape[1], 0)) for _, mask in parts])
    return DynamicCache(layers, config=config), mask
