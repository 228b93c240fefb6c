"""One proposal: ask for a candidate, check it, and give the proposer one go at mending what the check found."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from automem.errors import ModelFailure, ProposerFailure, ScaffoldFailure, UsageError
from automem.evolve.base import Assignment, Proposer, Verdict
from automem.evolve.check import check_candidate
from automem.evolve.proposers.failure import SessionFailure
from automem.results.plays import Cost


class Proposed(BaseModel):
    """`proposal.json`: what the proposer did and what the check said.

    No `verdict` yet: it is to be played, as it was checked; `digest` tells that it still is.
    """

    model_config = ConfigDict(extra="forbid")

    verdict: Verdict | None = None
    digest: str | None = None
    reason: str = ""
    analysis: str = ""
    repaired: bool = False
    cost: Cost = Cost()


def propose_and_check(proposer: Proposer, assignment: Assignment, env: str) -> Proposed:
    """Ask for a candidate and check it, with one repair round."""
    cost = Cost()
    analyses: list[str] = []
    for repaired in (False, True):
        try:
            proposal = proposer.propose(assignment)
        except ProposerFailure as failure:
            verdict: Verdict = "outage" if isinstance(failure.__cause__, ModelFailure) else "failed"
            cost += failure.cost if isinstance(failure, SessionFailure) else Cost()
            return Proposed(verdict=verdict, reason=str(failure), analysis="\n\n".join(analyses), cost=cost)
        cost += proposal.cost
        analyses += [proposal.analysis] if proposal.analysis else []
        analysis = "\n\n".join(analyses)
        if not any(assignment.output.iterdir()):
            return Proposed(verdict="empty", reason="nothing was proposed", analysis=analysis, cost=cost)
        digest, problems = _checked(assignment, env)
        if not problems:
            return Proposed(digest=digest, analysis=analysis, repaired=repaired, cost=cost)
        assignment = replace(
            assignment,
            errors="\n".join(f"- {problem}" for problem in problems),
            calls_left=_left(assignment.calls_left, proposal.cost.calls),
            tokens_left=_left(assignment.tokens_left, proposal.cost.tokens_in + proposal.cost.tokens_out),
        )
    return Proposed(verdict="refused", reason="; ".join(problems), analysis=analysis, repaired=True, cost=cost)


def _left(budget: int | None, used: int) -> int | None:
    return None if budget is None else max(0, budget - used)


def _checked(assignment: Assignment, env: str) -> tuple[str | None, list[str]]:
    """Digest of the candidate, and what speaks against it."""
    try:
        candidate, problems = check_candidate(assignment.output, assignment.scaffold, env, assignment.allowed)
    except (UsageError, ScaffoldFailure) as error:
        # A file's name need not be text.
        return None, [str(error).encode(errors="backslashreplace").decode()]
    return candidate.digest, problems
