"""Search over texts that were evicted: by words (BM25), or by likeness (a sentence encoder)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from automem.errors import UsageError, did_you_mean
from automem.evict.counting import words
from automem.evict.policies.embedding import Encoder, sentence_encoder

SEARCHES = ("bm25", "embedding")


class Search(Protocol):
    """Scores texts against a question. Deterministic: the same texts and question give the same scores."""

    def add(self, texts: Sequence[str]) -> None:
        """Take further texts in."""
        ...

    def scores(self, query: str) -> Sequence[float]:
        """One score for each text so far; 0 or less: it has nothing to do with `query`."""
        ...


class Bm25Search:
    """BM25 over words, so that any part of an identifier finds it. The index is made when it is asked."""

    def __init__(self) -> None:
        try:
            import bm25s
        except ModuleNotFoundError as missing:
            raise UsageError("search by words needs the package bm25s", "pip install 'automem[evict]'") from missing
        self._make = bm25s.BM25
        self._corpus: list[list[str]] = []
        self._index: Any = None

    def add(self, texts: Sequence[str]) -> None:
        """Take further texts in."""
        self._corpus += [words(text) for text in texts]
        self._index = None

    def scores(self, query: str) -> Sequence[float]:
        """BM25 of each text."""
        asked = words(query)
        if not asked or not any(self._corpus):
            return [0.0] * len(self._corpus)
        if self._index is None:
            self._index = self._make()
            self._index.index(self._corpus, show_progress=False)
        return [float(score) for score in self._index.get_scores(asked)]


class EmbeddingSearch:
    """Cosine of texts and question; a flat faiss index where faiss is installed, else numpy. Both are exact."""

    def __init__(self, encoder: Encoder | None = None) -> None:
        """`encoder`: texts to vectors; None: MiniLM, which needs `automem[evict-embed]`."""
        self._encode = encoder or sentence_encoder()
        self._index = _FaissVectors() if find_spec("faiss") else _Vectors()

    def add(self, texts: Sequence[str]) -> None:
        """Take further texts in."""
        if texts:
            self._index.add(self._embed(list(texts)))

    def scores(self, query: str) -> Sequence[float]:
        """The cosine for each text, rounded so that the order does not hang on the last bit."""
        return [round(float(score), 5) for score in self._index.products(self._embed([query])[0])]

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        made = np.asarray(self._encode(texts), dtype=np.float32)
        normed: NDArray[np.float32] = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
        return normed


class _Vectors:
    """Inner products by numpy."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.float32]] = []

    def add(self, rows: NDArray[np.float32]) -> None:
        self._rows += list(rows)

    def products(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        if not self._rows:
            return np.zeros(0, dtype=np.float32)
        found: NDArray[np.float32] = np.stack(self._rows) @ row
        return found


class _FaissVectors:
    """The same by faiss."""

    def __init__(self) -> None:
        self._index: Any = None

    def add(self, rows: NDArray[np.float32]) -> None:
        import faiss

        if self._index is None:
            self._index = faiss.IndexFlatIP(rows.shape[1])
        self._index.add(rows)

    def products(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        found = np.zeros(0 if self._index is None else self._index.ntotal, dtype=np.float32)
        if len(found):
            values, positions = self._index.search(row[None], len(found))
            found[positions[0]] = values[0]
        return found


def make_search(name: str) -> Search:
    """The search `name`: bm25 or embedding.

    Raises:
        UsageError: no such search, or a package is missing.
    """
    if name not in SEARCHES:
        raise UsageError(f"unknown search '{name}'", did_you_mean(name, SEARCHES))
    return Bm25Search() if name == "bm25" else EmbeddingSearch()
