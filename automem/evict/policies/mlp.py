"""The policy `mlp`: a small network over a frozen encoding and what is known of a unit now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from automem.errors import UsageError
from automem.evict.mlp import MlpScorer, chained, make_encoder, metadata, read_mlp
from automem.evict.policies.embedding import Encoder
from automem.evict.select import by_density
from automem.evict.units import Unit

_FIT = "make one: automem evict fit --scorer mlp"


class Mlp:
    """Scores units when they come, and all of them again every `scorer.every` units."""

    name = "mlp"

    def __init__(self, scorer: MlpScorer, encoder: Encoder | None = None) -> None:
        """`encoder` stands in for the one that the scorer names."""
        self._scorer = scorer
        self._encode = encoder or make_encoder(scorer.encoder)
        self._encoded: dict[str, NDArray[np.float64]] = {}
        self._scored: list[tuple[str, float]] = []
        self._since = 0

    @classmethod
    def load(cls, path: str) -> Mlp:
        """The policy with the scorer in the file at `path`.

        Raises:
            UsageError: the file is no such scorer, or a package is missing.
        """
        try:
            return cls(read_mlp(Path(path).read_bytes(), path))
        except OSError as error:
            raise UsageError(f"cannot read the scorer {path}: {error.strerror}", _FIT) from error

    def fill(self, scores: Sequence[float], costs: Sequence[int], budget: int) -> list[int]:
        """By score per token, of those that reach the threshold."""
        fit = [i for i, score in enumerate(scores) if score >= self._scorer.threshold]
        return [fit[i] for i in by_density([scores[i] for i in fit], [costs[i] for i in fit], budget)]

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The probability for each unit: as of now for new ones, as of the last scoring for the others."""
        known = len(self._scored)
        same = known <= len(units) and all(
            text == unit.text for (text, _), unit in zip(self._scored[: known - 1], units, strict=False)
        )
        if not same or len(units) - self._since >= self._scorer.every or not known:
            self._scored, self._since = [], len(units)
        # The last one scored may have grown since.
        start = max(0, len(self._scored) - 1)
        fresh = self._score(units)[start:]
        self._scored[start:] = [(unit.text, value) for unit, value in zip(units[start:], fresh, strict=True)]
        return [value for _, value in self._scored]

    def _score(self, units: Sequence[Unit]) -> list[float]:
        if not units:
            return []
        new = [text for text in dict.fromkeys(unit.text for unit in units) if text not in self._encoded]
        if new:
            self._encoded.update(zip(new, np.asarray(self._encode(new), dtype=np.float64), strict=True))
        encoded = np.stack([self._encoded[unit.text] for unit in units])
        scores = self._scorer.score(encoded, metadata(units))
        made: list[float] = (chained(units, scores) if self._scorer.chain else scores).tolist()
        return made
