"""Fitting a scorer: standardised features, L2 logistic regression, Platt calibration on episodes left out.

Needs scikit-learn (`pip install 'automem[evict]'`); running a scorer does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from automem.errors import UsageError
from automem.evict.features import agent_features
from automem.evict.scorer import Provenance, Scorer
from automem.evict.units import Unit

#: As published for the conversation scorer; the paper does not tell those of the agent scorer.
SETTINGS: dict[str, Any] = {"C": 1.0, "class_weight": "balanced", "max_iter": 1000, "random_state": 0}
#: What to do where no unit, or every unit, is worth keeping.
ONE_LABEL = "take more episodes; where nothing has an identifier, --labels counterfactual needs none"
_FOLDS = 5
# A calibration has two numbers and needs no prior.
_UNREGULARISED = 1e6
_DIGITS = 6


@dataclass(frozen=True)
class Episode:
    """The units of one episode and a label for each: 0 or 1, or how much was lost without it, from 0 to 1."""

    units: Sequence[Unit]
    labels: Sequence[float]


def fit(episodes: Sequence[Episode], labels: str, source: str = "") -> Scorer:
    """Fit a scorer for agent history. `labels` and `source` go into its provenance.

    Raises:
        UsageError: scikit-learn is missing, or the labels are all the same.
    """
    rows = [_rows(episode) for episode in episodes]
    features = np.concatenate([x for x, _ in rows]) if rows else np.zeros((0, 10))
    wanted = np.concatenate([y for _, y in rows]) if rows else np.zeros(0, dtype=np.int64)
    groups = np.repeat(np.arange(len(rows)), [len(y) for _, y in rows])
    if len(np.unique(wanted)) < 2:
        raise UsageError(f"a scorer needs units of both labels; all {len(wanted)} have the same", ONE_LABEL)
    mean, scale, weights, bias = _fit(features, wanted)
    slope, intercept, auc = _calibrate(features, wanted, groups)
    return Scorer(
        mean=_short(mean),
        scale=_short(scale),
        weights=_short(weights),
        bias=round(bias, _DIGITS),
        slope=round(slope, _DIGITS),
        intercept=round(intercept, _DIGITS),
        provenance=Provenance(
            labels=labels,
            source=source,
            episodes=len(rows),
            units=len(wanted),
            positives=int(wanted.sum()),
            auc=None if auc is None else round(auc, 4),
            settings=SETTINGS,
        ),
    )


def _rows(episode: Episode) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features and labels of the units that are in the contest; whatever was lost is a loss."""
    free = [i for i, unit in enumerate(episode.units) if not unit.pinned]
    return agent_features(episode.units)[free], (np.array(episode.labels)[free] > 0).astype(np.int64)


def _fit(
    features: NDArray[np.float64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    mean, scale = features.mean(axis=0), features.std(axis=0)
    # A feature that never varies must not count, and not divide by zero.
    scale = np.where(scale > 0, scale, 1.0)
    model = _regression(**SETTINGS).fit((features - mean) / scale, wanted)
    return mean, scale, model.coef_[0], float(model.intercept_[0])


def _calibrate(
    features: NDArray[np.float64], wanted: NDArray[np.int64], groups: NDArray[np.int64]
) -> tuple[float, float, float | None]:
    """Slope and intercept fitted on the decision values of episodes that were left out, and their AUC."""
    folds = min(_FOLDS, len(np.unique(groups)))
    z = np.full(len(wanted), np.nan)
    for fold in range(folds):
        out = groups % folds == fold
        if folds > 1 and len(np.unique(wanted[~out])) == 2:
            mean, scale, weights, bias = _fit(features[~out], wanted[~out])
            z[out] = (features[out] - mean) / scale @ weights + bias
    seen = ~np.isnan(z)
    if len(np.unique(wanted[seen])) < 2:
        return 1.0, 0.0, None
    model = _regression(C=_UNREGULARISED).fit(z[seen, None], wanted[seen])
    slope = float(model.coef_[0, 0])
    auc = area_under_curve(z[seen], wanted[seen])
    # A slope below zero says that the ranking is no better than chance; turning it round would be worse.
    return (slope, float(model.intercept_[0]), auc) if slope > 0 else (1.0, 0.0, auc)


def area_under_curve(scores: NDArray[np.float64], wanted: NDArray[np.int64]) -> float:
    """The chance that a unit with label 1 has a higher score than one with label 0; ties count half."""
    positive, negative = scores[wanted == 1], np.sort(scores[wanted == 0])
    below = np.searchsorted(negative, positive, side="left") + np.searchsorted(negative, positive, side="right")
    return float(below.mean() / (2 * len(negative)))


def _regression(**settings: Any) -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
    except ModuleNotFoundError as missing:
        raise UsageError("fitting a scorer needs scikit-learn", "pip install 'automem[evict]'") from missing
    return LogisticRegression(**settings)


def _short(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(value), _DIGITS) for value in values)
