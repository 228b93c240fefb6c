"""Means, standard errors and paired differences. What cannot be computed is None, never nan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, pstdev, stdev

RESAMPLES = 9_999


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of no values."""
    return fmean(values) if values else None


def standard_error(values: Sequence[float], sample: bool = False) -> float | None:
    """Standard deviation / √n: of the population, as published, or of the `sample` (n - 1 below the root).

    None of no values, and of a single one where a sample is asked for.
    """
    if len(values) < (2 if sample else 1):
        return None
    deviation = stdev(values) if sample else pstdev(values)
    return deviation / sqrt(len(values))


@dataclass(frozen=True)
class Paired:
    """Mean of `n` paired differences and its bootstrap confidence interval; None where n is too small."""

    n: int
    mean: float | None
    low: float | None
    high: float | None


def paired(before: Sequence[float], after: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Paired:
    """The differences `after - before`, pair by pair; the interval is BCa, the same for the same seed.

    Raises:
        ValueError: the two are not of one length.
    """
    differences = [b - a for a, b in zip(before, after, strict=True)]
    centre = mean(differences)
    if len(differences) < 2:
        return Paired(len(differences), centre, None, None)
    if len(set(differences)) == 1:
        return Paired(len(differences), centre, centre, centre)
    low, high = _interval(differences, confidence, seed)
    return Paired(len(differences), centre, low, high)


def sign_flip_p(before: Sequence[float], after: Sequence[float], seed: int = 0) -> float:
    """Probability of a mean difference this high if signs were chance: one-sided paired permutation test.

    Exact up to 16 pairs, else from 99,999 random sign flips, the same for the same seed (scipy).

    Raises:
        ValueError: the two are not of one length, or empty.
    """
    import numpy as np
    from scipy.stats import permutation_test

    differences = np.array([b - a for a, b in zip(before, after, strict=True)])
    if not len(differences):
        raise ValueError("no pairs to compare")
    if len(differences) == 1:  # which scipy refuses
        return 0.5 if differences[0] > 0 else 1.0
    found = permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        alternative="greater",
        n_resamples=99_999,
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def _interval(values: Sequence[float], confidence: float, seed: int) -> tuple[float, float]:
    # These take half a second to import, and no table needs them.
    import numpy as np
    from scipy.stats import bootstrap

    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        method="BCa",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)
