"""What a proposer is told: the task, the contract, the form of a scaffold, and the case at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from automem.evolve.base import Assignment, Revision
from automem.evolve.changes import KINDS, STRUCTURAL, Kind
from automem.grammar import OPERATIONS, help_text
from automem.memory.files import MemoryLimits
from automem.memory.kinds import ACCEPTS, FileSpec
from automem.scaffold.logic import FUNCTIONS
from automem.scaffold.spec import Budget, ScaffoldSpec
from automem.scaffold.template import FILTERS

#: Revisions of the lineage that are told, the latest, and characters of a reason.
_ROWS = 20
_REASON = 400

_TASK = """\
You improve the memory of an agent that plays long games. You do not play. You rewrite its *scaffold*: a folder \
of text that says which memory files the agent has, how they are written and read, and what its prompts say. \
Your rewrite will play the same games as the scaffold it comes from, and is kept only if it does better.

# How the agent works
At each step the agent first LOGs: it learns how its last action turned out and writes to its memory files. \
Then it PLANs: it looks things up in those files and commits one action. Each phase is a fresh conversation, so \
the files are all that it knows of earlier steps. The model that plays stays as it is; its weights are not yours \
to change."""

_CONTRACT = """\
# What every rewrite must keep to
1. The model keeps its memory operations, and it is the model that decides what to store and what to fetch. \
Code may normalise, sort, bound and show; it may not become a buffer that records everything by program, nor a \
sliding window over the latest steps.
2. What came of an action is logged in the step after it, never in the step that takes it.
3. At least one change is structural ({structural}). Better wording of prompts alone is not a rewrite.
4. No limit is raised: nothing under `memory:` and `budget:` may be larger than in the current scaffold. Saving \
tokens is no goal either.
5. Nothing that holds for one game only: no positions, names or solutions seen in a trace.
6. Only these kinds of change are allowed here: {allowed}.
Candidates are checked for this before they are played; one that fails is refused, with the reasons."""

_MEANING: Mapping[Kind, str] = {
    "memory-structure": "files, their kinds, keys and caps, the operations offered, `upsert` and `auto_files`",
    "memory-prompt": "words in prompts and file descriptions about how to use memory",
    "observation-processing": "`observe`, and what prompts show beyond their own words",
    "action-guard": "`guard` and `repair`",
    "task-advice": "advice about the game, in prompts or prefilled files",
}

_QUESTIONS = """\
# Answer these first
1. Use: does the agent write and consult its memory, at the moments when it matters?
2. Accuracy: is what memory says true and current, said once, and found when asked for?
3. Effect: did what was read change what was done?
4. Gaps: what did the agent see, need later, and not have or not find?
5. Structure: which of these faults come from files, kinds, keys, caps and operations, so that no wording mends \
them?
Then choose the one fault that costs most, and the smallest structural change that removes it."""

_LAYOUT = """\
# The form of a scaffold
- `scaffold.yaml`: the fields below. Give the candidate a `name` of its own and the current one as `parent`.
- `prompts/system.j2`, `prompts/log.j2`, `prompts/plan.j2` (and `prompts/gameplay.j2` for plan: handoff), and \
templates of yours that they include.
- `memory/FILE`: what a memory file holds at the start; each must be declared in scaffold.yaml. Leading lines \
with '#' are a header that stays.
- `logic.py`: optional functions, see below.
- `CHANGES.md`: one entry for each change, `## <kind>: <title>`, below it what was wrong and why this mends it.

Kinds of change:
{meanings}

scaffold.yaml:
{spec}
An entry of `files`:
{files}
What each kind of file lets the model write: {accepts}
`budget`:
{budget}
`memory`:
{memory}
Operations, offered in the phases under `operations` (log: any but ACTION; plan: those that read, and ACTION):
{operations}

# Templates
A small part of Jinja2: output, if, for, set, include of a named template, and the filters {filters}. No macros, \
no imports, nothing that grows without bound; a name that is not defined is an error. log, plan and gameplay see \
`observation`, `state` (facts of the game), `history` (`steps`, `last`, `unchanged`, `visits`, `step`), `memory` \
(`memory.index`, `memory.text("FILE")`), `blocks` (from `observe`), `budget`, `phase`, `operations`, `step`. \
system sees only `instructions`, `actions`, `default_action`, `files`, `operations_help`, `budget`, and is the \
same at every step. Keep the ready-made includes `automem/observation.j2`, `automem/memory.j2`, \
`automem/actions.j2`, `automem/operations.j2`, `automem/offered.j2` and a line `# LOG`, `# PLAN` or `# GAMEPLAY` \
in the template of each phase.

# logic.py
{functions}
`observe` returns texts by block name; `upsert` the rows of a table declared with `logic: true` (a row has `key`, \
`text`, `step`); `auto_files` the contents of files of kind auto; `guard` None or why the action should not be \
taken now; `repair` the action that was meant. They run in a sandbox without files, network, clock and chance, a \
second and 64 MiB per call, and forget everything between calls."""

_WORK = """\
# How you work
Use the tools. Look before you write: the diagnosis names episodes and steps; read those, the memory at those \
steps, and the scaffold. Long answers come in pages. Then write whole files into the candidate, which starts \
empty: begin with start_from_current, then replace with write_file what differs. Only what is in the candidate \
when you call finish counts. If there is nothing worth changing, leave it empty and finish."""


def contract(allowed: frozenset[Kind]) -> str:
    """Task, rules, questions and the form of a scaffold: the same for every proposer that can read."""
    kinds = [kind for kind in KINDS if kind in allowed]
    rules = _CONTRACT.format(structural=", ".join(sorted(STRUCTURAL)), allowed=", ".join(kinds))
    return "\n\n".join([_TASK, rules, _QUESTIONS, _layout()])


def system(allowed: frozenset[Kind]) -> str:
    """The system prompt of a conversation with tools."""
    return f"{contract(allowed)}\n\n{_WORK}"


def situation(assignment: Assignment, failed_at: str, candidate_at: str) -> str:
    """The case: what played how, what was tried, what failed. `…_at` say where a failed candidate and the
    candidate in the making are to be found."""
    scaffold, config = assignment.scaffold, assignment.run.config
    games = f"{config.env}/{', '.join(config.tasks)}, {len(config.specs())} episodes"
    parts = [f"# The case\nThe current scaffold is {scaffold.name}. It played {games}.", assignment.diagnosis.text()]
    parts.append(f"# What was tried before\n{_lineage(assignment.lineage)}")
    if assignment.failed:
        failed = assignment.failed
        played = f"Its mean was {_mean(failed.after)}." if failed.after else "It was not played to the end."
        parts.append(
            f"# The failed candidate\nYou continue from a candidate that did not make it: {failed.reason}\n{played} "
            f"{failed_at}\nLearn from it; write a candidate that starts from the current scaffold again."
        )
    if assignment.errors:
        parts.append(
            f"# What the check found wrong\n{assignment.errors}\n\nMend this in the candidate that you wrote. "
            f"{candidate_at}"
        )
    return "\n\n".join(parts)


def _layout() -> str:
    functions = "\n".join(f"- `{name}({', '.join(arguments)})`" for name, arguments in FUNCTIONS.items())
    return _LAYOUT.format(
        meanings="\n".join(f"- {kind}: {meaning}" for kind, meaning in _MEANING.items()),
        spec=_fields(ScaffoldSpec),
        files=_fields(FileSpec),
        accepts="; ".join(f"{kind}: {', '.join(names) or 'nothing'}" for kind, names in ACCEPTS.items()),
        budget=_fields(Budget),
        memory=_fields(MemoryLimits),
        operations=help_text(OPERATIONS, "tags"),
        filters=", ".join(sorted(FILTERS)),
        functions=functions,
    )


def _fields(model: type[BaseModel]) -> str:
    return "\n".join(f"- {name}: {field.description}" for name, field in model.model_fields.items())


def _lineage(rows: Sequence[Revision]) -> str:
    if not rows:
        return "Nothing yet."
    told = [f"({len(rows) - _ROWS} older ones are left out)"] if len(rows) > _ROWS else []
    return "\n".join([*told, *(_row(row) for row in rows[-_ROWS:])])


def _row(row: Revision) -> str:
    changes = "; ".join(f"{change.get('kind')}: {change.get('title')}" for change in row.changes) or "no changes"
    scores = f", mean {_mean(row.before)} before, {_mean(row.after)} after" if row.before and row.after else ""
    name = row.scaffold or "no candidate"
    return f"- {name} from {row.parent} ({changes}): {row.verdict}{scores}. {row.reason[:_REASON]}"


def _mean(scores: Mapping[str, float]) -> str:
    return f"{sum(scores.values()) / len(scores):.1%}"
