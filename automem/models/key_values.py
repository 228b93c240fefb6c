"""Keys and values of the rows of a batch: written once, read once for all heads that share them.

Nearly all that a further token costs on a CPU is moving keys and values about: transformers copies all of them to add
one token, again for each group of heads that shares them, and again when rows come or go. Here none of this happens;
the results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

if TYPE_CHECKING:
    from torch import Tensor

#: Tokens for which there is room when memory is made anew.
_ROOM = 128
_GROUPED = "automem_grouped"


class Slots:
    """Rows of keys and values in one tensor (layers, 2, slots, heads, columns, head_dim), keys before values.

    All rows end at the same column, where the next token of each is written; a shorter one begins later, as the mask
    (slots, columns) tells. A row stays in its slot until it goes, or moves into the slot of one that has gone.
    """

    def __init__(self) -> None:
        self._places: list[int] = []
        self._whole = torch.empty(0, 2, 0, 0, 0, 0)
        self._mask = torch.zeros(0, 0, dtype=torch.long)
        self._start = self._end = 0
        self._cache = Cache(layers=[])

    @property
    def places(self) -> Sequence[int]:
        """The slot of each row, in the order in which rows came; the slots in use are the first ones."""
        return self._places

    @property
    def cache(self) -> Cache:
        """What a model takes for its cache. Its layers write the new tokens, which count when `next` was called."""
        return self._cache

    def mask(self) -> Tensor:
        """The mask (slots in use, tokens) with the next token of each."""
        self._make_room(0, 0)
        self._mask[: len(self._places), self._end] = 1
        return self._mask[: len(self._places), self._start : self._end + 1]

    def next(self) -> None:
        """The next token of each row has been written."""
        self._end += 1

    def join(self, read: Tensor, mask: Tensor) -> None:
        """Add rows: their keys and values (layers, 2, rows, heads, tokens, head_dim) and mask (rows, tokens)."""
        rows, tokens = mask.shape
        if not self._places:
            self._whole, self._start, self._end = read[:, :, :0, :, :0], 0, 0
            self._cache = Cache(layers=[_SlotLayer(self, layer) for layer in range(len(read))])
        self._make_room(rows, tokens)
        first = len(self._places)
        self._places += range(first, first + rows)
        self._start = min(self._start, self._end - tokens)
        self._whole[:, :, first : first + rows, :, self._end - tokens : self._end] = read
        self._mask[first : first + rows] = 0
        self._mask[first : first + rows, self._end - tokens : self._end] = mask

    def keep(self, rows: Sequence[int]) -> None:
        """Let all other rows go, and the columns that only they had."""
        kept = [self._places[row] for row in rows]
        free = iter(sorted(set(range(len(kept))) - set(kept)))
        for row, place in enumerate(kept):
            if place >= len(kept):
                kept[row] = next(free)
                self._whole[:, :, kept[row], :, : self._end] = self._whole[:, :, place, :, : self._end]
                self._mask[kept[row]] = self._mask[place]
        self._places = kept
        if kept:
            self._start = int(self._mask[: len(kept)].any(dim=0).nonzero()[0])

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the next token of each row in a layer; all keys and values (slots in use, heads, tokens, head_dim)."""
        here = self._whole[layer, :, : len(self._places)]
        here[0, :, :, self._end : self._end + 1] = keys
        here[1, :, :, self._end : self._end + 1] = values
        return here[0, :, :, self._start : self._end + 1], here[1, :, :, self._start : self._end + 1]

    def __len__(self) -> int:
        """How many columns are in use."""
        return self._end - self._start

    def _make_room(self, rows: int, tokens: int) -> None:
        """Have room for further rows of so many tokens, and for the next token of each."""
        layers, two, slots, heads, columns, size = self._whole.shape
        used = len(self._places)
        if used + rows <= slots and tokens <= self._end < columns:
            return
        old, mask = self._whole[:, :, :used, :, self._start : self._end], self._mask[:used, self._start : self._end]
        end = max(len(self), tokens)
        slots = max(slots, used + rows)
        self._whole = old.new_zeros(layers, two, slots, heads, end + _ROOM, size)
        self._mask = torch.zeros(slots, end + _ROOM, dtype=torch.long)
        self._start = end - len(self)
        self._end = end
        self._whole[:, :, :used, :, self._start : end] = old
        self._mask[:used, self._start : end] = mask


class _SlotLayer(DynamicLayer):  # type: ignore[misc]
    """A layer of the cache of `Slots`."""

    def __init__(self, slots: Slots, number: int) -> None:
        super().__init__()
        self.is_initialized = True
        self._slots, self._number = slots, number

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Add a token to each row; all keys and values."""
        return self._slots.write(self._number, key_states, value_states)

    def get_seq_length(self) -> int:
        """How many tokens there are."""
        return len(self._slots)


def sees_all(model: Any) -> bool:
    """Whether each layer attends to all tokens; others count columns, and must have no padding between tokens."""
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)


def group_queries(model: Any) -> None:
    """Have heads that share keys and values read them together, in a model that uses PyTorch's attention."""
    if model.config._attn_implementation != "sdpa":
        return
    AttentionInterface.register(_GROUPED, _grouped)
    AttentionMaskInterface.register(_GROUPED, sdpa_mask)
    model.set_attn_implementation(_GROUPED)


def _grouped(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **others: Any
) -> tuple[Tensor, None]:
    """Attention whose queries (rows, heads, tokens, head_dim) stand behind one another where heads share keys."""
    rows, heads, tokens, size = query.shape
    groups = heads // key.shape[1]
    if groups == 1 or (attention_mask is None and tokens > 1) or others.get("position_bias") is not None:
        usual: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **others)
        return usual
    together = query.reshape(rows, key.shape[1], groups * tokens, size)
    mask = attention_mask if attention_mask is None or tokens == 1 else attention_mask.repeat(1, 1, groups, 1)
    found = scaled_dot_product_attention(
        together, key, value, attn_mask=mask, dropout_p=others.get("dropout", 0.0), scale=others.get("scaling")
    )
    return found.reshape(rows, heads, tokens, size).transpose(1, 2).contiguous(), None
