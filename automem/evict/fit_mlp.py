"""Fitting an `MlpScorer`: Adam in numpy on what units looked like at several moments of their episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from automem.errors import UsageError
from automem.evict.fit import ONE_LABEL, Episode, area_under_curve
from automem.evict.mlp import Layer, Matrix, MlpScorer, make_encoder, metadata
from automem.evict.policies.embedding import Encoder
from automem.evict.scorer import Provenance

_FOLDS = 5
_DIGITS = 5
_BETA1, _BETA2, _TINY = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class MlpSettings:
    """How to fit. `loss`: bce for labels of 0 and 1, mse for labels between (a drop in outcome)."""

    encoder: Literal["hashed", "sentence"] = "hashed"
    loss: Literal["bce", "mse"] = "bce"
    hidden: int = 16
    epochs: int = 40
    batch: int = 256
    rate: float = 0.003
    decay: float = 1e-4
    seed: int = 0
    every: int = 10
    threshold: float = 0.0
    chain: bool = False


@dataclass(frozen=True)
class _Rows:
    """Units at moments: encodings, metadata, labels, and the episode of each."""

    encoded: Matrix
    metadata: Matrix
    wanted: Matrix
    groups: NDArray[np.int64]

    def of(self, chosen: NDArray[np.bool_]) -> _Rows:
        return _Rows(self.encoded[chosen], self.metadata[chosen], self.wanted[chosen], self.groups[chosen])


def fit_mlp(
    episodes: Sequence[Episode],
    labels: str,
    source: str = "",
    settings: MlpSettings | None = None,
    encoder: Encoder | None = None,
) -> MlpScorer:
    """Fit the network. `labels` and `source` go into its provenance; `encoder` stands in for the one named.

    Raises:
        UsageError: the labels are all the same.
    """
    settings = settings or MlpSettings()
    encode = encoder or make_encoder(settings.encoder)
    parts = [_rows(episode, group, settings.every, encode) for group, episode in enumerate(episodes)]
    free = [label for e in episodes for unit, label in zip(e.units, e.labels, strict=True) if not unit.pinned]
    if len(set(free)) < 2:
        raise UsageError(f"a scorer needs units of both labels; all {len(free)} have the same", ONE_LABEL)
    rows = _Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Rows.__dataclass_fields__))
    provenance = Provenance(
        labels=labels,
        source=source,
        episodes=len(episodes),
        units=len(free),
        positives=sum(label > 0 for label in free),
        auc=_left_out(rows, settings),
        settings=asdict(settings),
    )
    return _fit(rows, settings, provenance)


def _rows(episode: Episode, group: int, every: int, encode: Encoder) -> _Rows:
    """The unpinned units of an episode, as they were every `every` units and at its end."""
    units = episode.units
    encoded = np.asarray(encode([unit.text for unit in units]), dtype=np.float64)
    free = np.array([not unit.pinned for unit in units], dtype=np.bool_)
    wanted = np.array(episode.labels, dtype=np.float64)
    moments = sorted({*range(every, len(units), every), len(units)})
    known = np.concatenate([metadata(units[:moment])[free[:moment]] for moment in moments])
    seen = np.concatenate([np.flatnonzero(free[:moment]) for moment in moments])
    return _Rows(encoded[seen], known, wanted[seen], np.full(len(seen), group))


def _left_out(rows: _Rows, settings: MlpSettings) -> float | None:
    """AUC on every fifth episode when it is left out; None: there is too little to leave out."""
    out = rows.groups % _FOLDS == _FOLDS - 1
    worth = (rows.wanted > 0).astype(np.int64)
    if len(np.unique(worth[out])) < 2 or len(np.unique(rows.wanted[~out])) < 2:
        return None
    none = Provenance(labels="", episodes=0, units=0, positives=0)
    scorer = _fit(rows.of(~out), settings, none)
    auc = area_under_curve(scorer.score(rows.encoded[out], rows.metadata[out]), worth[out])
    return round(auc, 4)


def _fit(rows: _Rows, settings: MlpSettings, provenance: Provenance) -> MlpScorer:
    mean, scale = rows.metadata.mean(axis=0), rows.metadata.std(axis=0)
    # What never varies must not divide by zero.
    scale = np.where(scale > 1e-9, scale, 1.0)
    inputs = np.concatenate([rows.encoded, (rows.metadata - mean) / scale], axis=1)
    first, first_bias, second, second_bias = _adam(inputs, rows.wanted, settings)
    return MlpScorer(
        encoder=settings.encoder,
        mean=_short(mean),
        scale=_short(scale),
        hidden=Layer(weights=tuple(map(_short, first)), bias=_short(first_bias)),
        out=Layer(weights=tuple(map(_short, second)), bias=_short(second_bias)),
        every=settings.every,
        threshold=settings.threshold,
        chain=settings.chain,
        provenance=provenance,
    )


def _adam(inputs: Matrix, wanted: Matrix, settings: MlpSettings) -> list[Matrix]:
    """Weights and biases of both layers after `epochs` of mini-batches."""
    draw = np.random.default_rng(settings.seed)
    size = (inputs.shape[1], settings.hidden)
    shares = [
        draw.normal(0.0, np.sqrt(2.0 / size[0]), size),
        np.zeros(settings.hidden),
        draw.normal(0.0, np.sqrt(1.0 / size[1]), (size[1], 1)),
        np.full(1, np.log((wanted.mean() + 1e-3) / (1.001 - wanted.mean()))),
    ]
    first, second = [np.zeros_like(p) for p in shares], [np.zeros_like(p) for p in shares]
    time = 0
    for _ in range(settings.epochs):
        order = draw.permutation(len(inputs))
        for start in range(0, len(order), settings.batch):
            batch = order[start : start + settings.batch]
            time += 1
            for i, slope in enumerate(_slopes(shares, inputs[batch], wanted[batch], settings)):
                first[i] = _BETA1 * first[i] + (1 - _BETA1) * slope
                second[i] = _BETA2 * second[i] + (1 - _BETA2) * slope**2
                step = first[i] / (1 - _BETA1**time) / (np.sqrt(second[i] / (1 - _BETA2**time)) + _TINY)
                shares[i] = shares[i] - settings.rate * (step + settings.decay * shares[i])
    return shares


def _slopes(shares: list[Matrix], x: Matrix, wanted: Matrix, settings: MlpSettings) -> list[Matrix]:
    """The gradient of the mean loss, by hand."""
    before = x @ shares[0] + shares[1]
    active = np.maximum(before, 0.0)
    p = 1.0 / (1.0 + np.exp(-np.clip((active @ shares[2])[:, 0] + shares[3][0], -500.0, 500.0)))
    error = p - wanted if settings.loss == "bce" else 2.0 * (p - wanted) * p * (1.0 - p)
    error = error[:, None] / len(x)
    back = (error @ shares[2].T) * (before > 0)
    return [x.T @ back, back.sum(axis=0), active.T @ error, error.sum(axis=0)]


def _short(values: Matrix) -> tuple[float, ...]:
    return tuple(round(float(value), _DIGITS) for value in values)
