"""A batch whose rows come and go while it is computed; prompts of unlike length are padded on the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from automem.models.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from torch import Tensor

#: Prompts read together, those of like length: little is spent on padding.
_READ = 16


class Batch:
    """What a model has read of each row. Rows are numbered in the order they came in.

    `prefixes` outlives the batch: what it knows of a prompt is not read again, if all layers see all tokens.
    """

    def __init__(self, model: Any, prefixes: PrefixCache) -> None:
        from automem.models.key_values import Slots, sees_all

        self._model = model
        self._prefixes = prefixes if sees_all(model) else PrefixCache(most=0)
        self._slots = Slots()

    def unread(self, ids: Sequence[int]) -> int:
        """How many tokens of a prompt `read` would have to compute."""
        return len(ids) - self._prefixes.known(ids)

    def read(self, prompts: Sequence[Sequence[int]]) -> np.ndarray:
        """Read prompts as further rows; the logits (prompts, vocabulary) of what follows each, in float64.

        Prompts that come sorted by what is `unread` of them waste least on padding.
        """
        import torch

        found = []
        for first in range(0, len(prompts), _READ):
            group = prompts[first : first + _READ]
            earlier = [self._prefixes.find(ids) for ids in group]
            cache, known = _recalled(earlier)
            ids, fresh = _padded([ids[_length(read) :] for ids, read in zip(group, earlier, strict=True)])
            mask = torch.cat([known, fresh], dim=1)
            found.append(self._logits(ids, mask, cache))
            keys_values = torch.stack([torch.stack([layer.keys, layer.values]) for layer in cache.layers])
            self._remember(group, keys_values, mask)
            self._slots.join(keys_values, mask)
        return np.concatenate(found)

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        """Add a token to each row; the logits of what follows, as `read` gives them."""
        import torch

        slots = self._slots.of_rows
        ids = torch.zeros(len(tokens), 1, dtype=torch.long)
        ids[slots, 0] = torch.tensor(tokens)
        cache, mask = self._slots.begin_token()
        logits = self._logits(ids, mask, cache)
        self._slots.end_token()
        return logits[slots]

    def keep(self, rows: Sequence[int]) -> None:
        """Let all other rows go."""
        self._slots.keep(rows)

    def _remember(self, prompts: Sequence[Sequence[int]], keys_values: Tensor, mask: Tensor) -> None:
        """Let later prompts that begin as these do without reading them."""
        for row, ids in enumerate(prompts):
            self._prefixes.add(ids, keys_values[:, :, row, :, mask[row].bool()])

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


def _recalled(reads: Sequence[Tensor | None]) -> tuple[Any, Tensor]:
    """A cache and its mask (rows, longest) of what is known of each row, padded on the left."""
    import torch
    from torch.nn.functional import pad
    from transformers import DynamicCache

    longest = max(map(_length, reads))
    mask = torch.tensor([[0] * (longest - _length(read)) + [1] * _length(read) for read in reads], dtype=torch.long)
    if not longest:
        return DynamicCache(), mask.reshape(len(reads), 0)
    nothing = next(read for read in reads if read is not None)[..., :0, :]
    rows = [nothing if read is None else read for read in reads]
    known = torch.stack([pad(read, (0, 0, longest - _length(read), 0)) for read in rows], dim=2)
    return DynamicCache([(layer[0], layer[1]) for layer in known]), mask
