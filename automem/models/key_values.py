"""The KV cache of a batch: keys and values are written once, and read once for all heads that share them.

Most of what a further token costs on a CPU is moving keys and values about: transformers copies all of them to add one
token, and again for each group of heads that shares them. Here they are copied now and then, when room runs out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

if TYPE_CHECKING:
    from torch import Tensor

#: Columns added whenever the tensor is made anew.
_ROOM = 128
_GROUPED = "automem_grouped"


class Slots:
    """Rows of keys and values in one tensor (layers, 2, slots, heads, columns, head_dim), keys before values.

    All rows end at the same column, where the next token of each is written; a shorter one begins later, as the mask
    (slots, columns) tells. A row stays in its slot until it goes, or moves into the slot of one that has gone.
    """

    def __init__(self) -> None:
        self._of_rows: list[int] = []
        self._keys_values = torch.empty(0, 2, 0, 0, 0, 0)
        self._mask = torch.zeros(0, 0, dtype=torch.long)
        self._start = self._end = 0

    @property
    def of_rows(self) -> Sequence[int]:
        """The slot of each row, in the order in which rows came; the slots in use are the first ones."""
        return self._of_rows

    @property
    def columns(self) -> int:
        """How many columns are in use."""
        return self._end - self._start

    def begin_token(self) -> tuple[Cache, Tensor]:
        """What a model needs to compute a further token of each row: cache and mask (slots in use, tokens)."""
        self._make_room()
        used = len(self._of_rows)
        self._mask[:used, self._end] = 1
        layers = [_SlotLayer(self, layer) for layer in range(len(self._keys_values))]
        return Cache(layers=layers), self._mask[:used, self._start : self._end + 1]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the further token in a layer; all keys and values (slots in use, heads, tokens, head_dim)."""
        both = self._keys_values[layer, :, : len(self._of_rows)]
        both[0, :, :, self._end : self._end + 1] = keys
        both[1, :, :, self._end : self._end + 1] = values
        return both[0, :, :, self._start : self._end + 1], both[1, :, :, self._start : self._end + 1]

    def end_token(self) -> None:
        """All layers have written it."""
        self._end += 1

    def join(self, keys_values: Tensor, mask: Tensor) -> None:
        """Add rows: (layers, 2, rows, heads, tokens, head_dim) and their mask (rows, tokens)."""
        rows, tokens = mask.shape
        if not self._of_rows:
            self._keys_values = keys_values[:, :, :0, :, :0]
        self._make_room(rows, tokens)
        first = len(self._of_rows)
        self._of_rows += range(first, first + rows)
        begin = self._end - tokens
        self._start = min(self._start, begin)
        # What a row left that has gone is masked, but 0 times no number would still be none.
        self._keys_values[:, :, first : first + rows, :, self._start : begin] = 0
        self._keys_values[:, :, first : first + rows, :, begin : self._end] = keys_values
        self._mask[first : first + rows] = 0
        self._mask[first : first + rows, begin : self._end] = mask

    def keep(self, rows: Sequence[int]) -> None:
        """Let all other rows go, and the columns that only they had; without rows there is no memory held."""
        kept = [self._of_rows[row] for row in rows]
        free = iter(sorted(set(range(len(kept))) - set(kept)))
        used = slice(self._start, self._end)
        for row, slot in enumerate(kept):
            if slot >= len(kept):
                kept[row] = next(free)
                self._keys_values[:, :, kept[row], :, used] = self._keys_values[:, :, slot, :, used]
                self._mask[kept[row]] = self._mask[slot]
        self._of_rows = kept
        if kept:
            self._start = int(self._mask[: len(kept)].any(dim=0).nonzero()[0])
        else:
            self._keys_values, self._mask = self._keys_values[:0, :, :0].clone(), self._mask[:0, :0].clone()
            self._start = self._end = 0

    def _make_room(self, rows: int = 0, tokens: int = 0) -> None:
        """Have room for further rows of so many tokens, and for a further token of each."""
        layers, _, slots, heads, columns, size = self._keys_values.shape
        used = len(self._of_rows)
        if used + rows <= slots and tokens <= self._end < columns:
            return
        old, mask = (
            self._keys_values[:, :, :used, :, self._start : self._end],
            self._mask[:used, self._start : self._end],
        )
        # Half of the slots at least, as rows that have gone are often followed by others.
        slots, end = max(used + rows, slots // 2), max(self.columns, tokens)
        self._keys_values = old.new_zeros(layers, 2, slots, heads, end + _ROOM, size)
        self._mask = torch.zeros(slots, end + _ROOM, dtype=torch.long)
        self._start, self._end = end - self.columns, end
        self._keys_values[:, :, :used, :, self._start : end] = old
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
        return self._slots.columns


def layer_kinds(model: Any) -> set[type]:
    """The kinds of a model's layers, as transformers caches them."""
    return {type(layer) for layer in DynamicCache(config=model.config).layers}


def has_attention_alone(model: Any) -> bool:
    """Whether each layer caches keys and values and nothing else, so that rows can come and go."""
    return layer_kinds(model) <= {DynamicLayer, DynamicSlidingWindowLayer}


def sees_all(model: Any) -> bool:
    """Whether each layer attends to all earlier tokens; a window counts columns, and padding between would shift it."""
    return layer_kinds(model) == {DynamicLayer}


def group_queries(model: Any) -> None:
    """Have heads that share keys and values read them together, where PyTorch's attention can be replaced."""
    if model.config._attn_implementation != "sdpa" or not model._can_set_attn_implementation():
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
    mask = attention_mask
    of_heads = mask is not None and mask.shape[1] > 1
    if groups == 1 or of_heads or (mask is None and tokens > 1) or others.get("position_bias") is not None:
        usual: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, mask, **others)
        return usual
    found = scaled_dot_product_attention(
        query.reshape(rows, key.shape[1], groups * tokens, size),
        key,
        value,
        attn_mask=mask if mask is None or tokens == 1 else mask.repeat(1, 1, groups, 1),
        dropout_p=others.get("dropout", 0.0),
        scale=others.get("scaling"),
    )
    return found.reshape(rows, heads, tokens, size).transpose(1, 2).contiguous(), None
