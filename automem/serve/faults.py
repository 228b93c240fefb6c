"""Faults that a server commits on purpose, so that clients can be tested against them."""

from __future__ import annotations

import random
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from automem.errors import UsageError, did_you_mean
from automem.problems import first_problem

Fault = int | Literal["cut", "malformed", "empty"]

_KEYS = (
    "status",
    "delay",
    "cut",
    "malformed",
    "empty",
    "retry_after",
    "die_after",
    "loading",
    "die_at",
    "sick_after",
    "first",
    "seed",
)


class Faults(BaseModel):
    """What goes wrong, how often. The n-th request meets the same fault in every run with the same seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    status: dict[int, float] = Field(
        default_factory=dict, description="Probability of an error answer, by status code."
    )
    delay: float = Field(default=0.0, ge=0, description="Seconds to wait before each answer.")
    cut: float = Field(default=0.0, ge=0, le=1, description="Probability that the connection ends in mid-answer.")
    malformed: float = Field(default=0.0, ge=0, le=1, description="Probability of an answer that is not JSON.")
    empty: float = Field(default=0.0, ge=0, le=1, description="Probability of an answer without choices.")
    retry_after: float | None = Field(
        default=None, ge=0, description="Seconds in the Retry-After header of error answers; none: no header."
    )
    die_after: int | None = Field(
        default=None,
        ge=0,
        description="Requests answered before the process dies with exit code 3; none: never.",
    )
    loading: float = Field(default=0.0, ge=0, description="Seconds before the server listens, as large models take.")
    die_at: float | None = Field(
        default=None,
        ge=0,
        description="Seconds after the start at which the process dies with exit code 3, loading or not; none: never.",
    )
    sick_after: int | None = Field(
        default=None,
        ge=0,
        description="Requests after which /health says 503, as that of an engine that is dead; none: never.",
    )
    first: int | None = Field(default=None, ge=0, description="Only the first so many requests meet faults; none: all.")
    seed: int = Field(default=0, description="Seed of the draws.")

    @model_validator(mode="after")
    def _at_most_one(self) -> Faults:
        if any(not 400 <= code <= 599 for code in self.status):
            raise ValueError("status: codes are from 400 to 599")
        if sum(p for _, p in self._chances()) > 1 + 1e-9:
            raise ValueError("the probabilities of all faults sum to more than 1")
        return self

    @classmethod
    def parse(cls, text: str) -> Faults:
        """Read `status=503:0.2,delay=0.05,cut=0.1`; `status` may stand several times.

        Raises:
            UsageError: unknown key, or a value that does not fit.
        """
        values: dict[str, object] = {}
        status: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, _, value = part.partition("=")
            if key not in _KEYS:
                raise UsageError(f"unknown fault '{key}'", did_you_mean(key, _KEYS))
            if key == "status":
                code, _, chance = value.partition(":")
                status[code] = chance or "1"
            else:
                values[key] = value
        try:
            return cls.model_validate({**values, "status": status})
        except ValidationError as error:
            raise UsageError(f"faults: {first_problem(error)}", "for example: status=503:0.2,delay=0.05") from error

    def draw(self, number: int) -> Fault | None:
        """The fault of request `number`, counted from 0: a status code, a kind, or None."""
        if self.first is not None and number >= self.first:
            return None
        left = random.Random(f"{self.seed}:{number}").random()
        for fault, chance in self._chances():
            if left < chance:
                return fault
            left -= chance
        return None

    def _chances(self) -> list[tuple[Fault, float]]:
        kinds: list[tuple[Fault, float]] = [
            ("cut", self.cut),
            ("malformed", self.malformed),
            ("empty", self.empty),
        ]
        return [*self.status.items(), *kinds]
