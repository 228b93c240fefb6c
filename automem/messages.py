"""The vocabulary of model calls: roles, phases, chat messages, token usage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NotRequired

from typing_extensions import TypedDict

Role = Literal["memory", "gameplay"]
#: `summary` comes first in a step, where the policy `summary` has taken steps out of the prompt.
Phase = Literal["summary", "log", "plan", "gameplay"]


class ToolCall(TypedDict):
    """One native tool call: `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class Message(TypedDict):
    """One chat message. `tool_calls` on assistant turns, `tool_call_id` on tool results."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. `cached`: prompt tokens the server took from its prefix cache (None: not told).

    `estimated` marks counts that come from text length and not from a tokenizer.
    """

    prompt: int
    completion: int
    cached: int | None = None
    estimated: bool = False
