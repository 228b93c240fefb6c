"""Policies without a model of the text: everything, the newest, the latest used."""

from __future__ import annotations

from collections.abc import Sequence

from automem.evict.identifiers import distinct
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


class Summary(Window):
    """Keeps the newest in half of the room, so that a model is not asked to summarise the rest at every step."""

    name = "summary"

    @staticmethod
    def fill(scores: Sequence[float], costs: Sequence[int], budget: int) -> list[int]:
        """The longest end of the history that fits half of `budget`."""
        return newest(scores, costs, budget // 2)


class LeastRecentlyUsed:
    """Keeps what was used last. A unit is used when it comes, and when an identifier that it brought is mentioned."""

    name = "lru"
    fill = staticmethod(by_score)

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The place of the latest unit that mentions something which this one was the first to mention."""
        mentioned: dict[str, int] = {}
        brought: list[list[str]] = []
        for unit in units:
            held = distinct(unit.text)
            brought.append([found for found in held if found not in mentioned])
            mentioned.update(dict.fromkeys(held, unit.index))
        pairs = zip(units, brought, strict=True)
        return [float(max((mentioned[found] for found in new), default=unit.index)) for unit, new in pairs]
