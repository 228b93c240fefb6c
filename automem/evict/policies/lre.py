"""The policy `lre`: a fitted scorer over causal features, each unit described once, when it comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from automem.evict.features import PrefixFeatures
from automem.evict.scorer import Scorer, load_scorer
from automem.evict.select import by_density
from automem.evict.units import Unit


class Learned:
    """p(keep) of each unit from itself and the units before it (LRE, sections 2 and 3)."""

    name = "lre"
    fill = staticmethod(by_density)

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._start()

    @classmethod
    def load(cls, path: str) -> Learned:
        """The policy with the scorer in the file at `path`."""
        return cls(load_scorer(Path(path)))

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The probability for each unit; that of a unit never changes when later ones come.

        The last unit may still grow (a call waits for its result), so it joins the prefix when the next one comes.
        """
        if not units:
            return []
        if list(units[: len(self._units)]) != self._units or len(self._units) >= len(units):
            self._start()
        new = units[len(self._units) : -1]
        rows = [*(self._prefix.add(unit) for unit in new), self._prefix.of(units[-1])]
        fresh = self._scorer.score(np.array(rows, dtype=np.float64)).tolist()
        self._units += new
        self._scores += fresh[:-1]
        return [*self._scores, fresh[-1]]

    def _start(self) -> None:
        self._prefix = PrefixFeatures()
        self._units: list[Unit] = []
        self._scores: list[float] = []
