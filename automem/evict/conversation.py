"""The scorer for conversations: TF-IDF of a unit's words and six numbers, one logistic regression (LRE, section 3).

Fitting needs scikit-learn (`pip install 'automem[evict]'`); a fitted scorer runs with numpy alone. Unlike the features
of an agent's steps, position and recency depend on how long the history is when it is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from math import log1p
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from automem.errors import UsageError
from automem.evict.features import CAPITAL
from automem.evict.fit import SETTINGS, Episode
from automem.evict.scorer import Provenance
from automem.evict.select import by_density
from automem.evict.units import Unit
from automem.records import checked, read_json

#: The six numbers beside the words.
NUMBERS = ("position", "recency", "log_tokens", "digits", "question", "capitals")
#: Most words that a scorer knows.
TERMS = 10_000

# scikit-learn's own pattern, so that a scorer reads as it was fitted.
_TERM = re.compile(r"\b\w\w+\b")
_DIGIT = re.compile("[0-9]")
_PLACES = 4


def conversation_numbers(units: Sequence[Unit]) -> NDArray[np.float64]:
    """idx/n, 1/(n - idx), log(1 + tokens), digits, whether it asks, capitalised words: shape (units, 6)."""
    n = len(units)
    rows = [
        (
            i / n,
            1.0 / (n - i),
            log1p(unit.tokens),
            float(len(_DIGIT.findall(unit.text))),
            float("?" in unit.text),
            float(len(CAPITAL.findall(unit.text))),
        )
        for i, unit in enumerate(units)
    ]
    return np.array(rows, dtype=np.float64).reshape(n, len(NUMBERS))


class ConversationScorer(BaseModel):
    """p(keep) from words and numbers: σ(Σ weights·tfidf + number_weights·(x - mean) / scale + bias).

    A term's TF-IDF is its count times `idf`, the row of a unit divided by its Euclidean length. `numbers` is empty
    where words alone are used.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    kind: Literal["lre-conversation"] = "lre-conversation"
    numbers: tuple[str, ...] = NUMBERS
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    number_weights: tuple[float, ...]
    bias: float
    terms: tuple[str, ...]
    idf: tuple[float, ...]
    weights: tuple[float, ...]
    provenance: Provenance

    @cached_property
    def _place(self) -> dict[str, int]:
        return {term: place for place, term in enumerate(self.terms)}

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.array(self.idf), np.array(self.weights)

    def score(self, units: Sequence[Unit]) -> NDArray[np.float64]:
        """The probability that each unit of a whole history is worth keeping: shape (units,)."""
        z = np.array([self._words(unit.text) for unit in units], dtype=np.float64) + self.bias
        if self.numbers:
            x = (conversation_numbers(units) - np.array(self.mean)) / np.array(self.scale)
            z += (x * np.array(self.number_weights)).sum(axis=1)
        kept: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(z, -500.0, 500.0)))
        return kept

    def to_json(self) -> str:
        """The text of its file."""
        return self.model_dump_json() + "\n"

    def save(self, path: Path) -> int:
        """Write the JSON file; returns its size in bytes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.write_bytes(self.to_json().encode("utf-8"))

    def _words(self, text: str) -> float:
        found = (self._place.get(term) for term in _TERM.findall(text.lower()))
        counts = Counter(place for place in found if place is not None)
        if not counts:
            return 0.0
        places = np.fromiter(counts.keys(), dtype=np.int64)
        idf, weights = self._arrays
        row = np.fromiter(counts.values(), dtype=np.float64) * idf[places]
        return float(row @ weights[places] / np.linalg.norm(row))


class ConversationPolicy:
    """A policy for `ContextManager`, over a fitted `ConversationScorer`."""

    name = "lre-conversation"
    fill = staticmethod(by_density)

    def __init__(self, scorer: ConversationScorer) -> None:
        self._scorer = scorer

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """The probability for each unit, at this length of the history."""
        return [float(score) for score in self._scorer.score(units)]


def load_conversation_scorer(path: Path) -> ConversationScorer:
    """Read a scorer from its file.

    Raises:
        UsageError: not such a scorer.
    """
    where = f"{path} is no scorer for conversations"
    hint = "make one: automem evict bench locomo FILE --scorers self -o SCORER"
    scorer = checked(ConversationScorer, read_json(path, hint, where), where, hint)
    words = {len(scorer.terms), len(scorer.idf), len(scorer.weights)}
    numbers = {len(scorer.numbers), len(scorer.mean), len(scorer.scale), len(scorer.number_weights)}
    if len(words) != 1 or len(numbers) != 1 or not all(scorer.scale) or scorer.numbers not in ((), NUMBERS):
        raise UsageError(f"{path} is no scorer for conversations: its lists do not fit each other")
    return scorer


def fit_conversations(
    groups: Sequence[Episode],
    labels: str,
    source: str = "",
    numbers: bool = True,
    left_out: Collection[str] = frozenset(),
) -> ConversationScorer:
    """Fit words, scale of the numbers and weights on these groups and nothing else.

    `labels` and `source` go into the provenance; `numbers` False fits on words alone. Units whose text is in
    `left_out` (the texts of a test fold) are no rows of the fit, though they count for the position of others.

    Raises:
        UsageError: scikit-learn is missing, the labels are all the same, or there are no words.
    """
    texts: list[str] = []
    wanted: list[int] = []
    kept_numbers = []
    for group in groups:
        rows = [i for i, unit in enumerate(group.units) if unit.text not in left_out]
        texts += [group.units[i].text for i in rows]
        wanted += [int(group.labels[i] > 0) for i in rows]
        kept_numbers.append(conversation_numbers(group.units)[rows])
    if len(set(wanted)) < 2:
        raise UsageError(f"a scorer needs units of both labels; all {len(wanted)} have the same", "take more data")
    x = np.concatenate(kept_numbers) if numbers else np.zeros((len(wanted), 0))
    told = Provenance(
        labels=labels,
        source=source,
        episodes=len(groups),
        units=len(wanted),
        positives=sum(wanted),
        settings={**SETTINGS, "max_features": TERMS, "stop_words": "english"},
    )
    return _fit(texts, x, np.array(wanted, dtype=np.int64), told)


def _fit(
    texts: list[str], numbers: NDArray[np.float64], wanted: NDArray[np.int64], told: Provenance
) -> ConversationScorer:
    vectorizer, model = _sklearn()
    try:
        words = vectorizer.fit_transform(texts)
    except ValueError as error:
        raise UsageError(f"the units have no words to learn from: {error}") from error
    from scipy.sparse import csr_matrix, hstack
    from threadpoolctl import threadpool_limits

    mean = numbers.mean(axis=0)
    scale = numbers.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    rows = hstack([words, csr_matrix((numbers - mean) / scale)], format="csr")
    # Vectors this short are slower on several threads, and their sums depend on how many there are.
    with threadpool_limits(1, "blas"):
        model.fit(rows, wanted)
    terms = vectorizer.get_feature_names_out()
    weights = model.coef_[0]
    return ConversationScorer(
        numbers=NUMBERS if numbers.shape[1] else (),
        mean=_short(mean),
        scale=tuple(float(value) for value in scale),
        number_weights=_short(weights[len(terms) :]),
        bias=round(float(model.intercept_[0]), _PLACES),
        terms=tuple(str(term) for term in terms),
        idf=_short(vectorizer.idf_),
        weights=_short(weights[: len(terms)]),
        provenance=told,
    )


def _sklearn() -> tuple[Any, Any]:
    """An unfitted vectorizer and regression, with the published settings."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
    except ModuleNotFoundError as missing:
        raise UsageError("fitting a scorer needs scikit-learn", "pip install 'automem[evict]'") from missing
    return TfidfVectorizer(max_features=TERMS, stop_words="english"), LogisticRegression(**SETTINGS)


def _short(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(value), _PLACES) for value in values)
