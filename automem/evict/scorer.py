"""`Scorer`: the few kilobytes that are learned. A logistic regression as a JSON file; numpy alone runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from automem.errors import UsageError
from automem.evict.features import AGENT_FEATURES
from automem.records import checked, parsed


class Provenance(BaseModel):
    """What a scorer was fitted on: without it a file of weights cannot be judged.

    `labels` is how labels were made, `source` where the episodes are, `auc` the ranking quality on episodes left
    out of the fit (None: only one episode).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    labels: str
    source: str = ""
    episodes: int
    units: int
    positives: int
    auc: float | None = None
    settings: dict[str, Any] = {}


class Scorer(BaseModel):
    """p(keep) from features: σ(slope·z + intercept) with z = weights·(x - mean) / scale + bias.

    `slope` and `intercept` are Platt's calibration of z; 1 and 0 leave it as it is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    kind: Literal["lre-agent"] = "lre-agent"
    features: tuple[str, ...] = AGENT_FEATURES
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    slope: float = 1.0
    intercept: float = 0.0
    provenance: Provenance

    def score(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability that a unit is worth keeping, for features of shape (units, features): shape (units,)."""
        weights = np.array(self.weights) / np.array(self.scale)
        # Row by row and not as a matrix product, whose last digit depends on how many rows there are.
        z = ((features - np.array(self.mean)) * weights).sum(axis=1) + self.bias
        kept: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(self.slope * z + self.intercept, -500.0, 500.0)))
        return kept

    def save(self, path: Path) -> None:
        """Write the JSON file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")


def load_scorer(path: Path) -> Scorer:
    """Read a scorer from a file.

    Raises:
        UsageError: not a scorer, or one with features that this version does not compute.
    """
    try:
        return read_scorer(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"cannot read the scorer {path}: {error.strerror}", "make one: automem evict fit") from error


def read_scorer(text: str | bytes, source: str) -> Scorer:
    """Read a scorer from its JSON text; errors name `source`.

    Raises:
        UsageError: not a scorer, or one with features that this version does not compute.
    """
    where, hint = f"{source} is not a scorer", "make one: automem evict fit"
    scorer = checked(Scorer, parsed(text, where, hint), where, hint)
    if scorer.features != AGENT_FEATURES:
        raise UsageError(f"{source} has other features than this version", f"it has {', '.join(AGENT_FEATURES)}")
    lengths = {len(scorer.features), len(scorer.mean), len(scorer.scale), len(scorer.weights)}
    if len(lengths) != 1 or not all(scorer.scale):
        raise UsageError(f"{source} is not a scorer: mean, scale and weights do not fit its features")
    return scorer
