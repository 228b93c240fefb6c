"""`AgenticProposer`: a conversation with a model that reads traces and writes a candidate, by tools."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from automem.episode import digest
from automem.errors import ModelFailure
from automem.evolve.base import Assignment, Proposal
from automem.evolve.proposers import briefing, tools
from automem.evolve.proposers.candidate import emptied_on_failure
from automem.evolve.proposers.failure import SessionFailure
from automem.messages import Message, ToolCall
from automem.models.base import Completion, Model, Request
from automem.results.plays import Cost

_NUDGE = "Use the tools; when the candidate is complete, or there is nothing to propose, call finish."
_DROPPED = "(left out to save room: call the tool again if you need this)"
_CUT = "the reply was cut off at the limit of its length: write less at a time"


class SessionBudget(BaseModel):
    """What one session may use. Whatever runs out first ends it, and it then proposes nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    turns: int = Field(300, ge=1, description="Model calls.")
    tokens: int = Field(5_000_000, ge=1, description="Prompt and completion tokens of all calls.")
    seconds: float = Field(3600.0, gt=0, description="Time from start to end.")
    context_chars: int = Field(
        240_000, ge=40_000, description="Longest conversation: beyond it the oldest tool answers are left out."
    )


class AgenticProposer:
    """The proposer `openai`: any `Model` that can call tools. Close it when no more is to be proposed."""

    def __init__(self, model: Model, budget: SessionBudget | None = None) -> None:
        self.name = model.name
        self.budget = budget or SessionBudget()
        self._model = model
        # A client belongs to the event loop it was first used in, so all sessions share one.
        self._runner = asyncio.Runner()

    def propose(self, assignment: Assignment) -> Proposal:
        """Hold one session; its transcript is a `session_<n>.jsonl` in the assignment's log folder.

        Raises:
            SessionFailure: the model could not be asked, or a budget was used up; the output is then empty.
        """
        with emptied_on_failure(assignment.output), _Transcript(assignment.log) as transcript:
            return self._runner.run(_Session(self._model, self.budget, assignment, transcript).hold())

    def close(self) -> None:
        """Close the model and the event loop."""
        self._runner.run(self._model.close())
        self._runner.close()


class _Transcript:
    """One line per message, as it is said, and a last one that tells how the session ended."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        number = 1 + sum(1 for _ in folder.glob("session_*.jsonl"))
        self._file = (folder / f"session_{number}.jsonl").open("x", encoding="utf-8")

    def __enter__(self) -> _Transcript:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.write({"end": "finished" if error is None else str(error) or type(error).__name__})
        self._file.close()

    def write(self, record: dict[str, Any]) -> None:
        """Write one line."""
        self._file.write(json.dumps({"time": round(time.time(), 3), **record}) + "\n")
        self._file.flush()


class _Session:
    """One conversation, from the briefing to `finish`."""

    def __init__(self, model: Model, budget: SessionBudget, assignment: Assignment, transcript: _Transcript) -> None:
        self._model = model
        self._budget = budget
        self._assignment = assignment
        self._transcript = transcript
        self._desk = tools.Desk(assignment)
        self._schemas = tools.schemas()
        self._messages: list[Message] = []
        self._cost = Cost()
        self._started = time.monotonic()

    async def hold(self) -> Proposal:
        """Talk until the model finishes or replies twice on end without a tool call."""
        self._brief()
        silent = 0
        while silent < 2:
            completion = await self._ask()
            for call in completion.tool_calls:
                self._answer(call, completion)
            if self._desk.analysis is not None:
                return Proposal(self._desk.analysis, self._spent())
            silent = 0 if completion.tool_calls else silent + 1
            if silent == 1:
                self._say({"role": "user", "content": _CUT if _is_cut(completion) else _NUDGE})
        return Proposal(completion.text, self._spent())

    def _brief(self) -> None:
        assignment, failed = self._assignment, self._assignment.failed
        ran = f", its run in {failed.run.path}" if failed and failed.run else ""
        at = f'Its files are in {failed.folder}{ran}; the tools show them with which="failed".' if failed else ""
        mine = 'It still stands in the candidate folder; read it with which="candidate".'
        self._say({"role": "system", "content": briefing.system(assignment.allowed)})
        self._say({"role": "user", "content": briefing.situation(assignment, at, mine)})

    async def _ask(self) -> Completion:
        self._check_budgets()
        _shorten(self._messages, self._budget.context_chars)
        left = self._budget.seconds - (time.monotonic() - self._started)
        try:
            async with asyncio.timeout(left):
                completion = await self._model.generate(self._messages, self._request())
        except TimeoutError as error:
            raise self._used_up(f"{self._budget.seconds:g} seconds") from error
        except ModelFailure as error:
            raise SessionFailure(error.message, self._spent(), error.hint) from error
        usage = completion.usage
        self._cost += Cost(
            calls=1, tokens_in=usage.prompt, tokens_out=usage.completion, tokens_cached=usage.cached or 0
        )
        message: Message = {"role": "assistant", "content": completion.text}
        if completion.tool_calls:
            message["tool_calls"] = list(completion.tool_calls)
        self._say(message, usage=vars(usage), finish_reason=completion.finish_reason)
        if completion.tool_calls:
            self._messages[-1] = {**message, "tool_calls": [_readable(call) for call in completion.tool_calls]}
        return completion

    def _answer(self, call: ToolCall, completion: Completion) -> None:
        text = tools.call(self._desk, call["name"], call["arguments"])
        if text.startswith("error: ") and _is_cut(completion):
            text = f"{text}; {_CUT}"
        self._say({"role": "tool", "content": text, "tool_call_id": call["id"]})

    def _say(self, message: Message, **facts: Any) -> None:
        self._messages.append(message)
        self._transcript.write({**message, **facts})

    def _check_budgets(self) -> None:
        budget, assignment = self._budget, self._assignment
        tokens = self._cost.tokens_in + self._cost.tokens_out
        if self._cost.calls >= budget.turns:
            raise self._used_up(f"{budget.turns} turns")
        if tokens >= budget.tokens:
            raise self._used_up(f"{budget.tokens} tokens")
        if time.monotonic() - self._started >= budget.seconds:
            raise self._used_up(f"{budget.seconds:g} seconds")
        if assignment.calls_left is not None and self._cost.calls >= assignment.calls_left:
            raise self._used_up(f"{assignment.calls_left} calls that the whole loop had left")
        if assignment.tokens_left is not None and tokens >= assignment.tokens_left:
            raise self._used_up(f"{assignment.tokens_left} tokens that the whole loop had left")

    def _used_up(self, what: str) -> SessionFailure:
        return SessionFailure(f"the session with {self._model.name} has used its {what}", self._spent())

    def _spent(self) -> Cost:
        return self._cost + Cost(seconds=round(time.monotonic() - self._started, 3))

    def _request(self) -> Request:
        assignment, config = self._assignment, self._assignment.run.config
        turn = self._cost.calls
        # Attempts at one parent differ by what the lineage holds before them.
        place = [assignment.scaffold.digest, len(assignment.lineage), assignment.errors or "", turn]
        return Request(
            role="memory",
            phase="plan",
            env=config.env,
            task=",".join(config.tasks),
            seed=0,
            step=turn,
            call=0,
            sampling_seed=int(digest(place)[:8], 16) & 0x7FFFFFFF,
            tools=self._schemas,
        )


def _is_cut(completion: Completion) -> bool:
    return completion.finish_reason == "length"


def _readable(call: ToolCall) -> ToolCall:
    """The call as it may be sent back: chat templates of servers fail on arguments that are not JSON objects."""
    try:
        sound = isinstance(json.loads(call["arguments"]), dict)
    except (ValueError, RecursionError):
        sound = False
    return call if sound else {**call, "arguments": "{}"}


def _shorten(messages: list[Message], limit: int) -> None:
    """Leave out the oldest tool answers, in place, down to half of what a conversation may be long.

    The answers to the latest reply stay: the model has not seen them yet.
    """
    size = sum(map(_size, messages))
    if size <= limit:
        return
    latest = max((number for number, message in enumerate(messages) if message["role"] == "assistant"), default=0)
    for number, message in enumerate(messages[:latest]):
        if size <= limit // 2:
            return
        if message["role"] == "tool" and len(message["content"]) > len(_DROPPED):
            size -= len(message["content"]) - len(_DROPPED)
            messages[number] = {**message, "content": _DROPPED}


def _size(message: Message) -> int:
    calls: Sequence[ToolCall] = message.get("tool_calls", ())
    return len(message["content"]) + sum(len(call["arguments"]) for call in calls)
