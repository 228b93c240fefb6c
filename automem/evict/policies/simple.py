"""Policies without a model of the text: everything, the newest, the latest used."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from automem.evict.identifiers import identifiers
from automem.evict.select import by_score, everything, newest
from automem.evict.units import Unit


class Full:
    """Keeps everything: the upper bound, as long as it fits the window."""

    name = "full"
    fill = staticmethod(everything)

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """1 for each."""
        return [1.0] * len(units)


class Window:
    """Keeps the newest that fit: first in, first out."""

    name = "window"
    fill = staticmethod(newest)

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The place in the history."""
        return [float(unit.index) for unit in units]


@lru_cache(maxsize=4096)
def _held(text: str) -> frozenset[str]:
    return frozenset(identifiers(text))


class LeastRecentlyUsed:
    """Keeps what was used last. A unit is used when it comes, and when an identifier in it is mentioned again."""

    name = "lru"
    fill = staticmethod(by_score)

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The place of the latest unit that mentions something of this one."""
        mentioned: dict[str, int] = {}
        holds: list[frozenset[str]] = []
        for unit in units:
            holds.append(_held(unit.text))
            mentioned.update(dict.fromkeys(holds[-1], unit.index))
        used = zip(units, holds, strict=True)
        return [float(max((mentioned[found] for found in held), default=unit.index)) for unit, held in used]
