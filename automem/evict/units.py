"""`Unit`: the piece of history that is kept or evicted as a whole, never cut and never rewritten (LRE, section 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from automem.errors import UsageError
from automem.evict.counting import MESSAGE_TOKENS, Count, approximate_tokens
from automem.trace import Step

Kind = Literal["rule", "task", "step"]
#: One chat message as the OpenAI API takes it: `role`, `content`, perhaps `tool_calls` and `tool_call_id`.
ChatMessage = Mapping[str, Any]

_RULES = ("system", "developer")


@dataclass(frozen=True)
class Unit:
    """A piece of history.

    `index` is its place in the whole history, evicted units counted. `text` is what scorers read, `tokens` what
    it costs in the prompt. A pinned unit is outside the contest. `messages` are given back as they came.
    """

    index: int
    text: str
    tokens: int
    kind: Kind = "step"
    pinned: bool = False
    messages: tuple[ChatMessage, ...] = ()


def units_from_messages(
    messages: Sequence[ChatMessage],
    count: Count = approximate_tokens,
    per_message: int = MESSAGE_TOKENS,
    before: Sequence[Unit] = (),
) -> list[Unit]:
    """The units of a chat; with the units `before` them, of a chat that goes on.

    Everything before the first assistant message is the opening: one pinned unit for each message, of kind `rule`
    (system and developer messages) or `task`. From there on a unit is an assistant message with all that follows
    it up to the next one, so tool calls and their results, or an action and the observation after it, are never
    parted. A system message that comes later is a unit of its own, pinned.

    Raises:
        UsageError: a tool result whose call is not there.
    """
    opening = all(unit.kind != "step" for unit in before)
    units: list[Unit] = []
    for group in _groups(messages, opening):
        role = group[0]["role"]
        opening = opening and role != "assistant"
        kind: Kind = "rule" if role in _RULES else "task" if opening else "step"
        texts = [message_text(message) for message in group]
        tokens = sum(count(text) + per_message for text in texts)
        units.append(Unit(len(before) + len(units), "\n".join(texts), tokens, kind, kind != "step", tuple(group)))
    return units


def units_from_steps(steps: Sequence[Step], count: Count = approximate_tokens) -> list[Unit]:
    """The units of a trace: one step each, observation and action."""
    texts = (step_text(step.observation, step.action) for step in steps)
    return [Unit(index, text, count(text)) for index, text in enumerate(texts)]


def step_text(observation: str, action: str) -> str:
    """One past step as a prompt shows it."""
    return f"{observation}\nYou did: {action}"


def message_text(message: ChatMessage) -> str:
    """Everything in a message that the model reads: its content, and the names and arguments of its calls."""
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        parts.append(f"{function['name']}({function['arguments']})")
    return "\n".join(part for part in parts if part)


def _groups(messages: Sequence[ChatMessage], opening: bool) -> list[list[ChatMessage]]:
    groups: list[list[ChatMessage]] = []
    alone = True
    for number, message in enumerate(messages):
        role = message["role"]
        if role == "tool" and (not groups or groups[-1][0]["role"] != "assistant"):
            raise UsageError(f"message {number} is a tool result, and no assistant message that asked is before it")
        if alone or role == "assistant" or role in _RULES:
            groups.append([message])
        else:
            groups[-1].append(message)
        if role == "assistant" or not opening:
            opening = False
            alone = role in _RULES
    return groups
