"""The failure of a proposer that had costs before it failed."""

from __future__ import annotations

from automem.errors import ProposerFailure
from automem.results.plays import Cost


class SessionFailure(ProposerFailure):
    """A session that came to nothing; `cost` is what it used up, for the budgets of the loop."""

    def __init__(self, message: str, cost: Cost, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.cost = cost
