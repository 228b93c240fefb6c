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
from automem.grammar import reads
from automem.memory.kinds import ACCEPTS
from automem.memory.kinds import Kind as FileKind
from automem.play.check import check_scaffold
from automem.plugins import plain_name
from automem.scaffold.spec import Scaffold, load_folder


def check_candidate(folder: Path, parent: Scaffold, env: str, allowed: frozenset[Kind]) -> tuple[Scaffold, list[str]]:
    """The candidate in `folder`, and everything that speaks against it (nothing: it may be played).

    Raises:
        AutoMemError: it does not even load.
    """
    candidate = load_folder(folder)
    problems = [*_identity(parent, candidate, env), *_kinds(parent, candidate, allowed)]
    problems += [*_memory_kept(parent, candidate), *_limits_kept(parent, candidate)]
    if not problems:
        try:
            check_scaffold(candidate, env)
        except AutoMemError as error:
            problems.append(str(error))
    return candidate, problems


def _identity(parent: Scaffold, candidate: Scaffold, env: str) -> Iterator[str]:
    if candidate.spec.env not in (None, plain_name(env)):
        yield f"scaffold.yaml: env is '{candidate.spec.env}', but the game is '{plain_name(env)}'"
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
    for kind in sorted((claims & STRUCTURAL).difference(*shown)):
        yield f"CHANGES.md claims a change of kind {kind}, which the files do not show"
    if not any(kinds & STRUCTURAL for kinds in shown):
        yield f"no structural change: {'wording alone' if shown else 'another name'} is not a revision"


def _memory_kept(parent: Scaffold, candidate: Scaffold) -> Iterator[str]:
    """The model still decides what is stored and fetched, if it did before."""
    if _stores(parent) and not _stores(candidate):
        yield "the model can no longer write to memory in LOG: offer it operations there, and files that take them"
    if _fetches(parent) and not _fetches(candidate):
        yield "the model can no longer read memory in PLAN: keep its operations in scaffold.yaml"


def _stores(scaffold: Scaffold) -> bool:
    """Whether there is a file, or one can be made, that some operation of LOG puts text into."""
    offered = set(scaffold.spec.operations.log) - {"DELETE"}
    kinds: set[FileKind] = {file.kind for file in scaffold.spec.files}
    if "CREATE" in offered:
        kinds.add("log")
    return any(offered & set(ACCEPTS[kind]) for kind in kinds)


def _fetches(scaffold: Scaffold) -> bool:
    """Whether some operation of PLAN brings text from a memory file; a count of lines does not."""
    return any(reads(name) for name in scaffold.spec.operations.plan if name not in ("COUNT", "RECALL"))


def _limits_kept(parent: Scaffold, candidate: Scaffold) -> Iterator[str]:
    """No limit above the parent's; None is no limit at all."""
    for group in ("memory", "budget"):
        before, after = getattr(parent.spec, group).model_dump(), getattr(candidate.spec, group).model_dump()
        for key, old in before.items():
            new = after[key]
            if old is not None and (new is None or new > old):
                yield f"{group}.{key} is {new}, above the {old} it was: limits stay where they were"
    most = max([parent.spec.memory.file_chars, *(file.max_chars or 0 for file in parent.spec.files)])
    for file in candidate.spec.files:
        if file.max_chars and file.max_chars > most:
            yield f"max_chars of {file.name} is {file.max_chars}, above the {most} that a file might have"
