"""Turns: the calls of an agent that kept or asked its memory, read from traces that are what they say.

A turn of the memory role is one; of a `merged` agent, whose PLAN is of the gameplay role, so is a PLAN call that
only consults. Every step is checked as it is read, so that what is trained on was really said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path

from automem.agent.turn import read_calls, read_reply
from automem.episode import EpisodeSpec, text_digest
from automem.errors import UsageError
from automem.grammar import Operation, reads, without
from automem.messages import Message
from automem.play.folder import RunFolder
from automem.scaffold.spec import Budget, ScaffoldSpec, load_folder
from automem.trace import Call, Result, Step, TraceReader, check_unedited

#: What the agent puts in place of a consulting reply of which nothing is left without its ACTION.
CONSULTED = "(memory consulted)"


@dataclass(frozen=True)
class Turn:
    """One memory turn: `number` is that of the call within its step."""

    step: int
    number: int
    call: Call

    @property
    def key(self) -> tuple[int, int]:
        """Its place in the episode."""
        return self.step, self.number


@dataclass(frozen=True, eq=False)
class Episode:
    """A finished episode of a run, and the scaffold it was played with."""

    run: str
    spec: EpisodeSpec
    path: Path
    result: Result
    scaffold: ScaffoldSpec

    def steps(self) -> Iterator[Step]:
        """The steps, each checked; after the last of them, the file as a whole.

        Raises:
            UsageError: the trace is not what was played; names step and call where it can.
        """
        reader = TraceReader(self.path)
        if reader.spec != self.spec:
            raise UsageError(f"{self.path}: its header is that of another episode", _EDITED)
        seen: str | None = None
        for number, step in enumerate(reader.steps()):
            if step.t != number or seen not in (None, text_digest(step.observation)):
                raise UsageError(f"{self.path}, step {number}: it does not follow on the step before", _EDITED)
            self._check(step)
            seen = step.next_digest
            yield step
        check_unedited(self.path)

    def digest(self) -> str:
        """Hash of the trace file."""
        with self.path.open("rb") as file:
            return file_digest(file, partial(blake2b, digest_size=12)).hexdigest()

    def _check(self, step: Step) -> None:
        """The recorded operations are those of the replies, and earlier replies stand in later prompts."""
        for number, call in enumerate(step.calls):
            where = f"{self.path}, step {step.t}, call {number}"
            if _said(call, self.scaffold.budget) != [(record.name, tuple(record.args)) for record in call.operations]:
                raise UsageError(f"{where}: the recorded operations are not those of the reply", _EDITED)
            earlier = earlier_calls(step.calls, number)
            shown = [message for message in call.messages if message["role"] == "assistant"]
            if earlier and not _repeats(shown[-len(earlier) :], earlier):
                raise UsageError(f"{where}: an earlier reply in the prompt is not what was replied", _EDITED)


_EDITED = "the trace was edited or is damaged: only turns that were really said are trained on"


def episodes(runs: Sequence[RunFolder]) -> Iterator[Episode]:
    """The finished episodes of `runs`, in the order of their configs."""
    for run in runs:
        scaffold = load_folder(run.path / "scaffold").spec
        for spec, result in run.finished():
            yield Episode(run.name, spec, run.trace_path(spec), result, scaffold)


def turns(step: Step) -> Iterator[Turn]:
    """The memory turns of a step; a summary of what left the prompt has no operation on memory and is none."""
    for number, call in enumerate(step.calls):
        if (call.role == "memory" and call.phase != "summary") or _only_consults(call):
            yield Turn(step.t, number, call)


def earlier_calls(calls: Sequence[Call], number: int) -> list[Call]:
    """The calls of a step whose replies stand in the prompt of call `number`, as its last assistant messages."""
    call = calls[number]
    phases = ("plan", "gameplay") if call.phase == "gameplay" else (call.phase,)
    return [before for before in calls[:number] if before.phase in phases]


def assistant(call: Call) -> Message:
    """The reply of a call as a chat message."""
    message: Message = {"role": "assistant", "content": call.reply}
    if call.tool_calls:
        message["tool_calls"] = call.tool_calls
    return message


def read_runs(paths: Iterable[Path]) -> list[RunFolder]:
    """The runs to learn from: all of one environment, played with one scaffold.

    Raises:
        UsageError: there is no run, one is given twice, or they differ.
    """
    runs = [RunFolder.read(path) for path in paths]
    first = runs[0]
    places = [run.path.resolve() for run in runs]
    if twice := next((run for run, place in zip(runs, places, strict=True) if places.count(place) > 1), None):
        raise UsageError(f"{twice.path} is given twice", "its turns would count twice: give each run once")
    for run in runs[1:]:
        for what in ("env", "options", "scaffold_digest"):
            if getattr(run.config, what) != getattr(first.config, what):
                raise UsageError(f"{run.name} and {first.name} differ in {what}", "train on runs of one scaffold")
    return runs


def _only_consults(call: Call) -> bool:
    """Whether this PLAN call of a merged agent asks memory, and names no action."""
    if call.phase != "plan" or any(record.name == "ACTION" for record in call.operations):
        return False
    asks = any(reads(record.name) for record in call.operations)
    return asks and without(call.reply, "ACTION") == call.reply


def _said(call: Call, budget: Budget) -> list[tuple[str, tuple[str, ...]]]:
    """The operations of a reply as the agent records them."""
    if call.phase == "summary":
        return []
    if call.tool_calls:
        found = read_calls(call.tool_calls, budget.operations)
    else:
        found = read_reply(call.reply, budget.reply_chars, budget.operations)
    return [(op.name, op.args) if isinstance(op, Operation) else ("?", (op.source,)) for op in found]


def _repeats(shown: Sequence[Message], earlier: Sequence[Call]) -> bool:
    """Whether the assistant messages are the replies of these calls, their ACTION cut or not."""
    if len(shown) != len(earlier):
        return False
    for message, call in zip(shown, earlier, strict=True):
        cut = without(call.reply, "ACTION").strip() or CONSULTED
        if message["content"] not in (call.reply, cut, cut if not call.tool_calls else cut.replace(CONSULTED, "")):
            return False
    return True
