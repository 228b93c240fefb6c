"""What a candidate must keep to, enforced before any play is paid for.

The contract of the published meta-session (AutoMem, appendix on loop 1), as checks: the model keeps memory
operations and decides what to store and fetch; at least one structural change; changes are of the kinds that
are claimed and allowed. That nothing about step t is written before step t + 1 holds by construction: LOG and
`logic.py` run before the action is chosen and see only what came before. Limits stay where they were, so that
a gain comes from better memory and not from more of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from automem.errors import AutoMemError
from automem.evolve.changes import STRUCTURAL, Kind, claimed, found
from automem.grammar import OPERATIONS
from automem.memory.kinds import ACCEPTS
from automem.play.check import check_scaffold
from automem.scaffold.spec import Scaffold, load


def check_candidate(folder: Path, parent: Scaffold, env: str, allowed: frozenset[Kind]) -> tuple[Scaffold, list[str]]:
    """The candidate in `folder`, and everything that speaks against it (nothing: it may be played).

    Raises:
        AutoMemError: it does not even load.
    """
    candidate = load(str(folder.resolve()))
    problems = [*_identity(parent, candidate, env), *_kinds(parent, candidate, allowed)]
    problems += [*_memory_kept(parent, candidate), *_limits_kept(parent, candidate)]
    if not problems:
        try:
            check_scaffold(candidate, env)
        except AutoMemError as error:
            problems.append(str(error))
    return candidate, problems


def _identity(parent: Scaffold, candidate: Scaffold, env: str) -> Iterator[str]:
    if candidate.spec.env not in (None, env):
        yield f"scaffold.yaml: env is '{candidate.spec.env}', but the game is '{env}'"
    if candidate.digest == parent.digest:
        yield "nothing that is played was changed"


def _kinds(parent: Scaffold, candidate: Scaffold, allowed: frozenset[Kind]) -> Iterator[str]:
    claims = {change.kind for change in claimed(candidate)} if candidate.texts.get("CHANGES.md") else set()
    shown = found(parent, candidate)
    if not claims:
        yield "CHANGES.md has no entry '## <kind>: <title>'"
    for kinds in shown:
        if not kinds & claims:
            yield f"the files show a change of kind {' or '.join(sorted(kinds))}, which CHANGES.md does not claim"
        if not kinds & allowed:
            yield f"a change of kind {' or '.join(sorted(kinds))} is not allowed here"
    for kind in sorted(claims - allowed):
        yield f"CHANGES.md claims a change of kind {kind}, which is not allowed here"
    if shown and not any(kinds & STRUCTURAL for kinds in shown):
        yield "no structural change: wording alone is not a revision"


def _memory_kept(parent: Scaffold, candidate: Scaffold) -> Iterator[str]:
    """The model still decides what is stored and fetched, if it did before."""
    before, after = parent.spec.operations, candidate.spec.operations
    for what, old, new in (
        ("write to memory in LOG", before.log, after.log),
        ("read memory in PLAN", before.plan, after.plan),
    ):
        wanted = "writes" if what.startswith("write") else "reads"
        if _offers(old, wanted) and not _offers(new, wanted):
            yield f"the model can no longer {what}: keep its operations in scaffold.yaml"
    if _offers(before.log, "writes") and not any(ACCEPTS[file.kind] for file in candidate.spec.files):
        yield "no file is left that the model can write"


def _offers(names: list[str], what: str) -> bool:
    return any(getattr(OPERATIONS[name], what) for name in names)


def _limits_kept(parent: Scaffold, candidate: Scaffold) -> Iterator[str]:
    """No limit above the parent's; None is no limit at all."""
    for group in ("memory", "budget"):
        before, after = getattr(parent.spec, group).model_dump(), getattr(candidate.spec, group).model_dump()
        for key, old in before.items():
            new = after[key]
            if old is not None and (new is None or new > old):
                yield f"{group}.{key} is {new}, above the {old} it was: limits stay where they were"
