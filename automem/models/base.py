"""`Model`: messages in, one completion out. Everything that answers for an agent implements it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from automem.messages import Message, Phase, Role, ToolCall, Usage


@dataclass(frozen=True)
class Request:
    """What goes with the messages of one call.

    `env`, `task`, `seed`, `step` and `call` (the number of the call within the step) say where in which
    episode the call stands: replay finds its answer by them, samplers take their seed from `sampling_seed`.
    `tools` are OpenAI tool schemas, `grammar` a regular expression that the reply must match.
    """

    role: Role
    phase: Phase
    env: str
    task: str
    seed: int
    step: int
    call: int
    sampling_seed: int
    tools: tuple[dict[str, Any], ...] = ()
    grammar: str | None = None


@dataclass(frozen=True)
class Completion:
    """What the model said. `retries` counts failed attempts before this answer."""

    text: str
    usage: Usage
    seconds: float = 0.0
    finish_reason: str = "stop"
    tool_calls: tuple[ToolCall, ...] = field(default=())
    retries: int = 0


class Model(Protocol):
    """Answers chats. `name` is the model's identity in specs and traces, e.g. `scripted:courier`."""

    name: str

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        """Answer `messages`.

        Raises:
            ModelFailure: the model could not be asked, after retries.
        """
        ...

    async def close(self) -> None:
        """Give back connections and memory."""
        ...


def estimate_usage(messages: Sequence[Message], text: str) -> Usage:
    """Usage for models without a tokenizer: four characters a token, rounded up."""
    prompt = sum(len(message["content"]) for message in messages)
    return Usage(prompt=-(-prompt // 4), completion=-(-len(text) // 4), estimated=True)
