"""LlamaIndex: a chat memory whose `get` gives what fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from automem.evict.adapters.messages import Borrowed, role_of
from automem.evict.manager import ContextManager

_ROLES = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "chatbot": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}


class EvictingMemory:
    """What LlamaIndex calls a memory, over one `ContextManager`.

        memory = EvictingMemory(ContextManager(make("lre:scorer.json"), Limits(window=28_000)))
        await agent.run("…", memory=memory)

    `get_all` has everything that was put, `get` what a model should be sent.
    """

    def __init__(self, manager: ContextManager) -> None:
        self.manager = manager
        self._messages: list[Any] = []

    def get(self, input: str | None = None, **kwargs: Any) -> list[Any]:
        """The messages to send. What is asked next (`input`) has no say in what is kept.

        Raises:
            PinsOverBudget: pins and live turn are longer than the window.
            UsageError: a tool result without its call.
        """
        return [kept.original for kept in self.manager([_borrow(message) for message in self._messages])]

    def get_all(self) -> list[Any]:
        """Every message."""
        return list(self._messages)

    def put(self, message: Any) -> None:
        """Add a message."""
        self._messages.append(message)

    def put_messages(self, messages: Sequence[Any]) -> None:
        """Add messages."""
        self._messages += messages

    def set(self, messages: Sequence[Any]) -> None:
        """Have these messages and no others."""
        self._messages = list(messages)

    def reset(self) -> None:
        """Forget everything."""
        self._messages = []

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[Any]:
        """As `get`."""
        return self.get(input)

    async def aget_all(self) -> list[Any]:
        """As `get_all`."""
        return self.get_all()

    async def aput(self, message: Any) -> None:
        """As `put`."""
        self.put(message)

    async def aput_messages(self, messages: Sequence[Any]) -> None:
        """As `put_messages`."""
        self.put_messages(messages)

    async def aset(self, messages: Sequence[Any]) -> None:
        """As `set`."""
        self.set(messages)

    async def areset(self) -> None:
        """As `reset`."""
        self.reset()


def _borrow(message: Any) -> Borrowed:
    name = str(getattr(message.role, "value", message.role))
    return Borrowed(message, role_of(name, _ROLES, "LlamaIndex"), message.content, _calls(message))


def _calls(message: Any) -> list[tuple[str, Any]]:
    """Calls are blocks of a message; older integrations leave them as their API gave them."""
    blocks = [block for block in getattr(message, "blocks", ()) if getattr(block, "block_type", "") == "tool_call"]
    if blocks:
        return [(block.tool_name, block.tool_kwargs) for block in blocks]
    given = [_plain(call) for call in message.additional_kwargs.get("tool_calls") or ()]
    functions = [_plain(call.get("function", call)) for call in given]
    return [(function["name"], function["arguments"]) for function in functions]


def _plain(call: Any) -> dict[str, Any]:
    made: dict[str, Any] = call if isinstance(call, dict) else call.model_dump()
    return made
