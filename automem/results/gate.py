"""The gate: is the candidate better than the best, or is it luck?

Scores are progress by (task, seed), from the same gate seeds for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from automem.results.stats import paired, sign_flip_p

Scores = Mapping[str, float]


@dataclass(frozen=True)
class GateResult:
    """What the gate decided. `p` is one-sided; `low` and `high` bound the mean difference."""

    gate: str
    accepted: bool
    n: int
    before: float
    after: float
    difference: float
    p: float | None = None
    low: float | None = None
    high: float | None = None

    def data(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)

    def __str__(self) -> str:
        told = f"{self.before:.3f} -> {self.after:.3f}"
        if self.p is None:
            return told
        return f"{told}, p < 0.001" if self.p < 0.001 else f"{told}, p = {self.p:.3f}"


class Gate(Protocol):
    """Decides from the scores on the same episodes before and after."""

    name: str

    def decide(self, before: Scores, after: Scores) -> GateResult:
        """Compare; both have the same keys."""
        ...


class GateSettings(BaseModel):
    """Settings of the paired gate."""

    model_config = ConfigDict(extra="forbid")

    confidence: float = Field(0.95, ge=0.5, lt=1, description="One-sided confidence that the gain is not chance.")


class MeanGate:
    """The papers' gate: a strictly higher mean. About half of all identical candidates pass it."""

    name = "mean"

    def __str__(self) -> str:
        return "mean"

    def decide(self, before: Scores, after: Scores) -> GateResult:
        """Accept when the mean is higher at all."""
        old, new = _values(before, after)
        low, high = fmean(old), fmean(new)
        return GateResult(self.name, high > low, len(old), low, high, high - low)


class PairedGate:
    """Accept when chance would bring such a gain with a probability of at most 1 - confidence.

    The probability is that of the exact one-sided sign-flip test on the paired differences: it keeps its
    level at any n, which a bootstrap of ten pairs does not. The interval beside it is the bootstrap's.
    """

    name = "paired"

    def __init__(self, confidence: float = 0.95) -> None:
        self.confidence = confidence

    def decide(self, before: Scores, after: Scores) -> GateResult:
        """Accept when the gain is significant."""
        old, new = _values(before, after)
        p = sign_flip_p(old, new)
        interval = paired(old, new, confidence=self.confidence)
        return GateResult(
            gate=self.name,
            accepted=p <= 1 - self.confidence,
            n=len(old),
            before=fmean(old),
            after=fmean(new),
            difference=fmean(new) - fmean(old),
            p=p,
            low=interval.low,
            high=interval.high,
        )

    def __str__(self) -> str:
        return f"paired at {self.confidence:g}"

    def fewest_pairs(self) -> int:
        """The number of episodes below which not even a gain in every one of them is enough."""
        pairs = 1
        while 0.5**pairs > 1 - self.confidence + 1e-12:
            pairs += 1
        return pairs


def _values(before: Scores, after: Scores) -> tuple[list[float], list[float]]:
    if before.keys() != after.keys():
        raise ValueError("the gate compares the same episodes before and after")
    return [before[key] for key in before], [after[key] for key in before]
