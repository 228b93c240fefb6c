"""LangChain and LangGraph: a list of messages in, a list out, as with their `trim_messages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from automem.evict.adapters.messages import Borrowed, role_of
from automem.evict.manager import ContextManager

_ROLES = {
    "system": "system",
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "function": "tool",
}


class MessageTrimmer:
    """Keeps the messages of one conversation within the limits of its `ContextManager`.

        trim = MessageTrimmer(ContextManager(make("lre:scorer.json"), Limits(window=28_000)))
        model.invoke(trim(messages))

    In LangGraph: `pre_model_hook=lambda state: {"llm_input_messages": trim(state["messages"])}`. The very objects
    come back, in their order; calls are never parted from their results.
    """

    def __init__(self, manager: ContextManager) -> None:
        self.manager = manager

    def __call__(self, messages: Sequence[Any]) -> list[Any]:
        """The messages to send.

        Raises:
            PinsOverBudget: pins and live turn are longer than the window.
            UsageError: a tool result without its call, or something that is no message.
        """
        return [kept.original for kept in self.manager([_borrow(message) for message in messages])]


def _borrow(message: Any) -> Borrowed:
    kind = message.role if message.type == "chat" else message.type
    calls = [(call["name"], call["args"]) for call in getattr(message, "tool_calls", None) or ()]
    role = kind if kind in _ROLES.values() else role_of(kind, _ROLES, "LangChain")
    return Borrowed(message, role, message.content, calls)
