"""What a model has read lately: of a prompt that begins as an earlier one, only the rest has to be read."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

#: Bytes of keys and values that are kept of earlier prompts.
_BYTES = 256 * 1024**2


class PrefixCache:
    """Keys and values of the prompts used last, as many as `most` bytes hold.

    Prompts are sorted by their token ids: the one that shares most with another stands right beside its place.
    """

    def __init__(self, most: int = _BYTES) -> None:
        self._most = most
        self._bytes = 0
        self._sorted: list[tuple[int, ...]] = []
        #: Least recently used first; tensors (layers, 2, heads, tokens, head_dim), keys before values.
        self._read: OrderedDict[tuple[int, ...], Tensor] = OrderedDict()

    def known(self, ids: Sequence[int]) -> int:
        """How many of the first ids an earlier prompt has: never all, as what follows the last has to be computed."""
        return self._longest(tuple(ids))[0]

    def find(self, ids: Sequence[int]) -> Tensor | None:
        """Keys and values (layers, 2, heads, `known(ids)`, head_dim) of the first ids; None where none is known."""
        count, nearest = self._longest(tuple(ids))
        if not count:
            return None
        self._read.move_to_end(nearest)
        return self._read[nearest][..., :count, :]

    def add(self, ids: Sequence[int], read: Tensor) -> None:
        """Keep what was read of a prompt: (layers, 2, heads, tokens, head_dim)."""
        prompt = tuple(ids)
        if prompt in self._read:
            self._read.move_to_end(prompt)
            return
        insort(self._sorted, prompt)
        self._read[prompt] = read
        self._bytes += read.nbytes
        while self._bytes > self._most:
            oldest, forgotten = self._read.popitem(last=False)
            self._bytes -= forgotten.nbytes
            del self._sorted[bisect_left(self._sorted, oldest)]

    def _longest(self, ids: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """How much of `ids` the nearest prompt shares, and that prompt."""
        at = bisect_left(self._sorted, ids)
        beside = [(_shared(ids, other), other) for other in self._sorted[max(0, at - 1) : at + 1]]
        count, nearest = max(beside, default=(0, ()))
        return min(count, len(ids) - 1), nearest


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common beginning."""
    length = min(len(one), len(other))
    return next((n for n in range(length) if one[n] != other[n]), length)
