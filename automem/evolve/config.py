"""What is asked of loop 1, and when it has to stop."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from automem.differences import differences
from automem.errors import UsageError
from automem.evolve.changes import KINDS, Kind
from automem.results.plays import Cost


class LoopBudget(BaseModel):
    """Hard stops of the whole loop. Calls and tokens are those of play and of proposers together."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    revisions: int = Field(5, ge=1, description="Revisions at most.")
    attempts: int = Field(3, ge=1, description="Fresh attempts at one revision.")
    continuations: int = Field(1, ge=0, description="Goes at mending a failed attempt, with its own results at hand.")
    max_calls: int | None = Field(None, ge=1, description="Model calls.")
    max_tokens: int | None = Field(None, ge=1, description="Prompt and completion tokens.")
    max_minutes: float | None = Field(None, gt=0, description="Minutes of proposing and playing.")
    max_usd: float | None = Field(None, gt=0, description="Money, at the prices below.")
    usd_per_mtok_in: float = Field(0.0, ge=0, description="Price of a million prompt tokens.")
    usd_per_mtok_out: float = Field(0.0, ge=0, description="Price of a million completion tokens.")

    @model_validator(mode="after")
    def _priced(self) -> LoopBudget:
        if self.max_usd is not None and not (self.usd_per_mtok_in or self.usd_per_mtok_out):
            raise ValueError("max_usd needs the prices usd_per_mtok_in and usd_per_mtok_out")
        return self

    def usd(self, cost: Cost) -> float:
        """What `cost` costs in money."""
        return (cost.tokens_in * self.usd_per_mtok_in + cost.tokens_out * self.usd_per_mtok_out) / 1e6

    def reached(self, cost: Cost) -> str | None:
        """Which limit `cost` reaches, or None."""
        tokens = cost.tokens_in + cost.tokens_out
        spent = {
            "calls": (cost.calls, self.max_calls),
            "tokens": (tokens, self.max_tokens),
            "minutes": (cost.seconds / 60, self.max_minutes),
            "usd": (self.usd(cost), self.max_usd),
        }
        return next((f"max_{name} {limit}" for name, (used, limit) in spent.items() if limit and used >= limit), None)


class EvolveConfig(BaseModel):
    """What was asked of the loop; `evolve.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env: str
    tasks: list[str]
    options: dict[str, Any]
    start: str
    start_digest: str
    models: dict[str, Any]
    proposer: str
    proposer_settings: dict[str, Any] = {}
    gate: str
    gate_seeds: list[int]
    report_seeds: list[int]
    allowed: list[Kind] = list(KINDS)
    budget: LoopBudget = LoopBudget()
    limits: dict[str, Any] = {}

    def check_seeds(self) -> None:
        """Raise UsageError when a seed is in both sets: a score on gate seeds has been selected for."""
        if both := sorted(set(self.gate_seeds) & set(self.report_seeds)):
            raise UsageError(
                f"seeds {', '.join(map(str, both[:5]))} are gate seeds and report seeds", "the two must not overlap"
            )

    def differences(self, other: EvolveConfig) -> list[str]:
        """The settings in which two configs differ, budgets aside: those may be raised later."""
        return differences(self, other, free=("budget",))
