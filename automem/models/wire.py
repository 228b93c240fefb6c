"""The OpenAI chat protocol's JSON, as far as AutoMem reads and writes it. Client and server share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from automem.messages import Message, ToolCall, Usage
from automem.problems import said


class WireFunction(BaseModel):
    """The function of a tool call; `arguments` is JSON text."""

    name: str
    arguments: str


class WireCall(BaseModel):
    """A tool call, nested where `ToolCall` is flat."""

    id: str
    function: WireFunction

    def flat(self) -> ToolCall:
        """As a `ToolCall`."""
        return {"id": self.id, "name": self.function.name, "arguments": self.function.arguments}


class Reply(BaseModel):
    """The assistant's message in an answer."""

    content: str | None = None
    tool_calls: list[WireCall] | None = None


class Choice(BaseModel):
    """One of the replies; only the first is ever used."""

    message: Reply
    finish_reason: str | None = None


class PromptDetails(BaseModel):
    """What the server tells about the prompt's tokens."""

    cached_tokens: int | None = None


class Tokens(BaseModel):
    """The usage block of an answer."""

    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptDetails | None = None

    def usage(self) -> Usage:
        """As `Usage`."""
        details = self.prompt_tokens_details
        return Usage(self.prompt_tokens, self.completion_tokens, details.cached_tokens if details else None)


class Answer(BaseModel):
    """The answer to a chat request. Without choices it is malformed."""

    choices: list[Choice] = Field(min_length=1)
    usage: Tokens | None = None


class Card(BaseModel):
    """One model on the server's list; `max_model_len` is vLLM's word for its limit in tokens."""

    id: str
    max_model_len: int | None = None


class Listing(BaseModel):
    """The answer to `GET /v1/models`."""

    data: list[Card]


def nested(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Tool calls as the protocol writes them."""
    return [
        {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}} for c in calls
    ]


def wire_message(message: Message) -> dict[str, Any]:
    """A message as the protocol writes it."""
    wire: dict[str, Any] = {**message}
    if calls := message.get("tool_calls"):
        wire["tool_calls"] = nested(calls)
    return wire


def problem(error: Mapping[str, Any]) -> str:
    """Where and what is wrong, from one entry of a pydantic error; leaves the offending text out."""
    return f"{'.'.join(map(str, error['loc'])) or 'body'}: {said(error)}"
