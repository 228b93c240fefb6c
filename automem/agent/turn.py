"""One step of the agent: what its phases share, and the conversation that each of them holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from automem.agent.context import History
from automem.agent.recall import recall
from automem.episode import EpisodeSpec
from automem.errors import LimitFailure
from automem.grammar import (
    Malformed,
    Operation,
    help_text,
    parse,
    parse_tool_calls,
    reply_pattern,
    tool_schemas,
)
from automem.memory.files import Memory
from automem.messages import Message, Phase, Role, ToolCall
from automem.models.base import Completion, Model, Request
from automem.scaffold.logic import Logic
from automem.scaffold.prompts import MemoryView, Prompts
from automem.scaffold.spec import Scaffold
from automem.trace import Call, OperationRecord, Refusal

if TYPE_CHECKING:
    from automem.env import Env

T = TypeVar("T")


class Worker(Protocol):
    """Runs blocking work off the event loop, one piece at a time."""

    def __call__(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Awaitable[T]:
        """Run `function` and await its value."""
        ...


@dataclass
class Spent:
    """What the episode has used up so far, against `spec.limits`."""

    calls: int = 0
    tokens: int = 0

    def add(self, call: Call) -> None:
        """Count one call."""
        self.calls += 1
        self.tokens += call.usage.prompt + call.usage.completion

    def check(self, spec: EpisodeSpec) -> None:
        """Raise LimitFailure when nothing is left for another call."""
        limits = spec.limits
        if limits.max_calls is not None and self.calls >= limits.max_calls:
            raise LimitFailure(f"the episode has used its {limits.max_calls} model calls", "raise limits.max_calls")
        if limits.max_tokens is not None and self.tokens >= limits.max_tokens:
            raise LimitFailure(f"the episode has used its {limits.max_tokens} tokens", "raise limits.max_tokens")


@dataclass(frozen=True)
class Setting:
    """What is the same for every step of an episode."""

    spec: EpisodeSpec
    scaffold: Scaffold
    env: Env
    models: Mapping[Role, Model]
    memory: Memory
    history: History
    prompts: Prompts
    logic: Logic
    worker: Worker
    spent: Spent
    system: str


@dataclass
class Turn:
    """One step in the making: its variables for the prompts, and the calls made so far."""

    setting: Setting
    step: int
    variables: dict[str, Any]
    calls: list[Call] = field(default_factory=list)
    proposed: str | None = None
    rejections: list[str] = field(default_factory=list)

    @property
    def history(self) -> dict[str, Any]:
        """The exported history that prompts and logic see."""
        history: dict[str, Any] = self.variables["history"]
        return history

    def offered(self, phase: Phase) -> list[str]:
        """The operations that `phase` offers."""
        offered: list[str] = [] if phase == "summary" else getattr(self.setting.scaffold.spec.operations, phase)
        return offered

    def prompt(self, phase: Phase) -> str:
        """The user text that opens `phase`."""
        variables = {**self.variables, "phase": phase, "operations": self.offered(phase)}
        if phase == "summary" and (summary := self.setting.history.summary):
            variables |= {"leaving": summary.leaving, "limit": summary.limit}
        return self.setting.prompts.render(f"{phase}.j2", variables, self.step)

    def opening(self, phase: Phase) -> list[Message]:
        """The messages that open a fresh conversation: system, example turns, summary and prompt."""
        summary = self.setting.history.summary
        examples: list[Message] = []
        for turn in self.setting.scaffold.spec.examples.get(phase, []):
            examples.append({"role": "user", "content": turn.user})
            examples.append({"role": "assistant", "content": turn.assistant})
        return [
            {"role": "system", "content": self.setting.system},
            *examples,
            {"role": "user", "content": (summary.shown() if summary else "") + self.prompt(phase)},
        ]


Reply = Sequence[Operation | Malformed]
#: What is recorded in place of operations that were left out.
UNREAD = "…"


def is_named(operation: Operation | Malformed, name: str) -> bool:
    """Whether this is the well-formed operation `name`."""
    return isinstance(operation, Operation) and operation.name == name


class Conversation:
    """A chat with one model in one phase: ask, execute what it wrote in the order written, answer."""

    def __init__(self, turn: Turn, role: Role, phase: Phase, messages: list[Message]) -> None:
        self._turn = turn
        self._role = role
        self._phase = phase
        self.messages = messages

    async def ask(self) -> Reply:
        """Send the messages; the parsed reply is added to them and the call is recorded."""
        setting = self._turn.setting
        setting.spent.check(setting.spec)
        sent = list(self.messages)
        completion = _storable(await setting.models[self._role].generate(sent, self._request()))
        call = self._record(sent, completion)
        self._turn.calls.append(call)
        setting.spent.add(call)
        self.messages.append(_assistant(completion))
        budget = setting.scaffold.spec.budget
        if completion.tool_calls:
            return read_calls(completion.tool_calls, budget.operations)
        return read_reply(completion.text, budget.reply_chars, budget.operations)

    async def execute(self, operation: Operation | Malformed) -> OperationRecord:
        """Execute one memory operation; malformed and unoffered ones are answered with what is wrong."""
        setting = self._turn.setting
        if isinstance(operation, Malformed):
            return self.note(operation, operation.error, "malformed")
        offered = self._turn.offered(self._phase)
        if operation.name not in offered:
            answer = f"error: {operation.name} is not offered now; offered: {', '.join(offered)}"
            return self.note(operation, answer, "not offered")
        if operation.name == "RECALL":
            limit = setting.scaffold.spec.budget.result_chars
            result = await setting.worker(recall, setting.history, operation, limit)
        elif "upsert" in setting.logic.functions:
            result = await setting.worker(setting.memory.execute, operation, self._turn.step)
        else:
            result = setting.memory.execute(operation, self._turn.step)
        facts = {"hits": result.hits, "changed": result.changed, "repeat": result.repeat}
        return self.note(operation, result.text, None if result.ok else "memory", **facts)

    def note(
        self, operation: Operation | Malformed, result: str, refusal: Refusal | None = None, **facts: Any
    ) -> OperationRecord:
        """Record an operation and the answer to it with the latest call."""
        if isinstance(operation, Malformed):
            name, args = "?", [operation.source]
        else:
            name, args = operation.name, list(operation.args)
        record = OperationRecord(name=name, args=args, ok=refusal is None, result=result, refusal=refusal, **facts)
        self._turn.calls[-1].operations.append(record)
        return record

    def answer(self, records: Sequence[OperationRecord]) -> None:
        """Send the results back, as one user message or one tool message per call."""
        limit = self._turn.setting.scaffold.spec.budget.result_chars
        texts = _clipped([record.result for record in records], limit)
        if calls := self.messages[-1].get("tool_calls"):
            for call, text in zip(calls, texts, strict=True):
                self.messages.append({"role": "tool", "content": text, "tool_call_id": call["id"]})
            return
        lines = [
            f"[{number}] {_title(record)}: {text}"
            for number, (record, text) in enumerate(zip(records, texts, strict=True), 1)
        ]
        self.tell("\n".join(lines))

    def tell(self, text: str) -> None:
        """Add user text; two user messages in a row become one, as some chat templates demand."""
        if self.messages[-1]["role"] == "user":
            self.messages[-1] = {"role": "user", "content": f"{self.messages[-1]['content']}\n\n{text}"}
        else:
            self.messages.append({"role": "user", "content": text})

    def _request(self) -> Request:
        spec, turn = self._turn.setting.spec, self._turn
        scaffold = turn.setting.scaffold.spec
        offered = turn.offered(self._phase)
        number = len(turn.calls)
        env = turn.setting.env
        literal = () if env.takes_arguments else env.actions
        return Request(
            role=self._role,
            phase=self._phase,
            env=spec.env,
            task=spec.task,
            seed=spec.seed,
            step=turn.step,
            call=number,
            sampling_seed=spec.sampling_seed(turn.step, number),
            tools=tool_schemas(offered) if scaffold.dialect == "tools" else (),
            grammar=reply_pattern(offered, literal) if scaffold.constrained and offered else None,
        )

    def _record(self, sent: list[Message], completion: Completion) -> Call:
        return Call(
            role=self._role,
            phase=self._phase,
            messages=sent,
            reply=completion.text,
            tool_calls=list(completion.tool_calls),
            usage=completion.usage,
            finish_reason=completion.finish_reason,
            retries=completion.retries,
            seconds=round(completion.seconds, 4),
        )


def system_prompt(scaffold: Scaffold, prompts: Prompts, env: Env) -> str:
    """The system message: static for the episode, and the same in all phases."""
    spec = scaffold.spec
    phases = [spec.operations.log, spec.operations.plan]
    if spec.plan == "handoff":
        phases.append(spec.operations.gameplay)
    names = list(dict.fromkeys(name for phase in phases for name in phase))
    variables = {
        "instructions": env.instructions,
        "actions": list(env.actions),
        "default_action": env.default_action,
        "files": [file.model_dump() for file in spec.files],
        "operations_help": help_text(names, spec.dialect),
        "budget": spec.budget.model_dump(),
    }
    return prompts.render("system.j2", variables, step=0)


def turn_variables(
    setting: Setting, observation: str, state: dict[str, Any], history: dict[str, Any]
) -> dict[str, Any]:
    """What the phase templates of one step see, besides `blocks`, `phase` and `operations`."""
    return {
        "observation": observation,
        "state": state,
        "history": history,
        "memory": MemoryView(setting.memory),
        "budget": setting.scaffold.spec.budget.model_dump(),
        "step": history["step"],
    }


def read_reply(text: str, characters: int, operations: int) -> Reply:
    """The operations of a reply within the limits; what is left out is answered, too."""
    reply = parse(text[:characters])
    read = list(reply[:operations])
    if len(reply) > operations:
        read.append(Malformed(f"not executed: one reply may have {operations} operations, these are too many", UNREAD))
    if len(text) > characters:
        read.append(Malformed(f"the reply is longer than {characters} characters: the rest was not read", UNREAD))
    return read


def read_calls(calls: Sequence[ToolCall], operations: int) -> Reply:
    """The tool calls of a reply within the limit; every call has an answer, those left out as well."""
    left_out = Malformed(f"not executed: one reply may have {operations} operations, these are too many", UNREAD)
    return [*parse_tool_calls(calls[:operations]), *[left_out] * len(calls[operations:])]


def _storable(completion: Completion) -> Completion:
    """The completion without lone surrogates, which no file and no server takes."""
    if completion.text.isascii():
        return completion
    return replace(completion, text=completion.text.encode("utf-8", "replace").decode())


def _assistant(completion: Completion) -> Message:
    message: Message = {"role": "assistant", "content": completion.text}
    if completion.tool_calls:
        message["tool_calls"] = list(completion.tool_calls)
    return message


def _title(record: OperationRecord) -> str:
    if record.name == "?":
        return "not executed"
    return " ".join([record.name, *(arg if len(arg) <= 40 else f"{arg[:37]}..." for arg in record.args[:2])])


def _clipped(texts: Sequence[str], limit: int) -> list[str]:
    """Texts cut so that together they stay within `limit` characters; each cut is said."""
    clipped = []
    for text in texts:
        if len(text) > limit:
            text = f"{text[:limit]}\n(cut here: the results of one round are limited)"
        limit = max(0, limit - len(text))
        clipped.append(text)
    return clipped
