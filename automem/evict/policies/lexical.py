"""Policies that count words: TF-IDF salience, and BM25 against what the agent is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import log

from automem.errors import UsageError
from automem.evict.counting import words
from automem.evict.policies.base import query
from automem.evict.select import by_density
from automem.evict.units import Unit


@lru_cache(maxsize=4096)
def _counted(text: str) -> Counter[str]:
    return Counter(words(text))


class TfIdf:
    """Content salience: a unit is worth the sum of its words' weights, (1 + log tf) · idf over the history so far."""

    name = "tfidf"
    fill = staticmethod(by_density)

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The sum for each unit."""
        counts = [_counted(unit.text) for unit in units]
        seen_in = Counter(word for count in counts for word in count)
        idf = {word: log((1 + len(units)) / (1 + seen)) + 1 for word, seen in seen_in.items()}
        return [sum((1 + log(tf)) * idf[word] for word, tf in count.items()) for count in counts]


class Bm25:
    """BM25 of each unit against pins and live turn: keeps what is about the same things."""

    name = "bm25"
    fill = staticmethod(by_density)

    def __init__(self) -> None:
        try:
            import bm25s
        except ModuleNotFoundError as missing:
            raise UsageError("the policy bm25 needs the package bm25s", "pip install 'automem[evict]'") from missing
        self._make = bm25s.BM25

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The score for each unit."""
        corpus = [words(unit.text) for unit in units]
        if not any(corpus):
            return [0.0] * len(units)
        index = self._make()
        index.index(corpus, show_progress=False)
        return [float(score) for score in index.get_scores(words(query(units)))]
