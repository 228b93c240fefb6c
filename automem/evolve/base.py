"""The nouns of loop 1: what a proposer gets, what it gives, and what is written down about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from automem.evolve.changes import Kind
from automem.evolve.diagnose import Diagnosis
from automem.play.folder import RunFolder
from automem.results.plays import Cost
from automem.scaffold.spec import Scaffold

#: What became of a proposal. `refused`: it failed the check; `empty`: nothing was written; `failed`: the proposer
#: itself failed (time-out, budget); `outage`: its model could not be asked, so the slot is owed again; `rejected`:
#: it was played and did not pass the gate.
Verdict = Literal["accepted", "rejected", "refused", "empty", "failed", "outage"]


class Revision(BaseModel):
    """One row of `lineage.jsonl`: a proposal, and everything that was decided about it."""

    model_config = ConfigDict(extra="forbid")

    revision: int
    attempt: int
    continuation: int
    proposer: str
    parent: str
    parent_digest: str
    scaffold: str | None = None
    digest: str | None = None
    folder: str
    diagnosis: str = ""
    changes: list[dict[str, str]] = []
    verdict: Verdict
    reason: str
    repaired: bool = False
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    gate: dict[str, Any] = {}
    evaluator: str
    proposal_cost: Cost = Cost()
    play_cost: Cost = Cost()


@dataclass(frozen=True)
class Failed:
    """An earlier candidate of the same attempt that did not make it: what a continuation learns from."""

    folder: Path
    reason: str
    run: RunFolder | None
    after: dict[str, float]


@dataclass(frozen=True)
class Assignment:
    """What a proposer is asked: improve `scaffold`, given how it played.

    `output` is an empty folder; the candidate is what stands there when the proposer returns, and nothing
    else. `log` is where it may keep its transcript. `errors` are those of the check, when it is asked to
    repair what it wrote (then `output` still holds it). `calls_left` and `tokens_left` are what remains of the
    budget of the whole loop; None: unlimited.
    """

    scaffold: Scaffold
    run: RunFolder
    diagnosis: Diagnosis
    allowed: frozenset[Kind]
    output: Path
    log: Path
    lineage: Sequence[Revision] = ()
    failed: Failed | None = None
    errors: str | None = None
    calls_left: int | None = None
    tokens_left: int | None = None


@dataclass(frozen=True)
class Proposal:
    """What a proposer says about what it wrote. The candidate itself is in the assignment's `output`."""

    analysis: str
    cost: Cost


class Proposer(Protocol):
    """Writes a candidate scaffold."""

    @property
    def name(self) -> str:
        """What the lineage calls it."""
        ...

    def propose(self, assignment: Assignment) -> Proposal:
        """Write a candidate into `assignment.output`; leave it empty when there is nothing to propose.

        Raises:
            ProposerFailure: it could not do its work (time-out, endpoint down, budget used up).
        """
        ...

    def close(self) -> None:
        """Give back what it holds; nothing is proposed after it."""
        ...
