"""Clean: six transforms and four checks on every reply that is trained on. One bad turn costs that turn, no other.

The transforms are those of the AutoMem paper's post-processing (arXiv 2607.01224): code fences round tags are
unwrapped; LOG is cut at DONE; PLAN is cut at ACTION; a reply without a memory operation is dropped; what stands behind
the last operation is cut; a reply with a fence left is dropped. Here LOG and PLAN are told apart by the recorded phase,
earlier replies in the prompt are cleaned like the last one, and DONE counts as an operation: that nothing needs to be
written is what a memory specialist has to learn, too.

Pure functions of text. Nothing that a model proposes can change what they do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, cast

from automem.agent.turn import UNREAD
from automem.grammar import OPERATIONS, Operation, locate, parse, parse_tool_calls, without
from automem.messages import Message, Phase
from automem.trace import Call
from automem.train.turns import CONSULTED, Turn, assistant

Check = Literal["no_op_last", "plaintext_fence", "action_in_last", "post_op_tail"]

_FENCE = "```"
_FENCED = re.compile(r"```[^\S\n]*[\w.+-]*[^\S\n]*\n?(.*?)```", re.DOTALL)


class Dropped(Exception):
    """The turn cannot be trained on; `reason` is the word under which it is counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def clean_turn(turn: Turn, earlier: int) -> tuple[list[Message], Message]:
    """Prompt and reply of a turn, both cleaned; `earlier` is how many replies of the phase its prompt ends with.

    Example turns of the scaffold, which stand before those, stay as they were sent.

    Raises:
        Dropped: the reply, or an earlier one, is not fit to be imitated.
    """
    phase = turn.call.phase
    if _cut_off(turn.call):
        raise Dropped("cut_off")
    if CONSULTED in turn.call.reply:
        raise Dropped("placeholder")
    reply = clean_message(assistant(turn.call), phase)
    if failed := checks(reply, phase):
        raise Dropped(failed[0])
    places = [number for number, message in enumerate(turn.call.messages) if message["role"] == "assistant"]
    prompt: list[Message] = list(turn.call.messages)
    for place in places[len(places) - earlier :]:
        try:
            prompt[place] = clean_message(prompt[place], phase)
        except Dropped as dropped:
            raise Dropped(f"earlier_{dropped.reason}") from None
    return _paired(prompt), reply


def _cut_off(call: Call) -> bool:
    """Whether the reply has no end of its own: the limit of tokens ended it, or it was longer than the agent reads."""
    return call.finish_reason == "length" or any(
        record.name == "?" and record.args == [UNREAD] for record in call.operations
    )


def clean_message(message: Message, phase: Phase) -> Message:
    """An assistant message after the transforms.

    Raises:
        Dropped: `no_operation` or `fence`.
    """
    if "tool_calls" in message:
        return _clean_calls(message, phase)
    return {**message, "content": clean_text(message["content"], phase)}


def clean_text(text: str, phase: Phase) -> str:
    """A reply in the tags dialect after the transforms.

    Raises:
        Dropped: `no_operation` or `fence`.
    """
    text = _unwrap(text)
    text = _cut_at_done(text) if phase == "log" else _cut_at_action(text)
    operations = [one for one in locate(text) if _is_memory(one.found)]
    if not operations:
        raise Dropped("no_operation")
    text = text[: operations[-1].end].strip()
    if _fenced_outside(text):
        raise Dropped("fence")
    return text


def checks(message: Message, phase: Phase) -> list[Check]:
    """What is still wrong with a cleaned reply; written without the transforms, to tell when they fail."""
    text, calls = message["content"], message.get("tool_calls")
    found = parse_tool_calls(calls) if calls else parse(text)
    names = [operation.name for operation in found if isinstance(operation, Operation)]
    wrong: list[Check] = []
    if not any(name != "ACTION" for name in names):
        wrong.append("no_op_last")
    if _fenced_outside(text):
        wrong.append("plaintext_fence")
    if "ACTION" in names or (not calls and without(text, "ACTION") != text):
        wrong.append("action_in_last")
    if not calls and _tail(text):
        wrong.append("post_op_tail")
    return wrong


def _unwrap(text: str) -> str:
    """Code fences taken away from what holds operations; a fence inside an operation's text is that text's own."""

    def bare(fence: re.Match[str]) -> str:
        inside = any(one.start < fence.start() and fence.end() < one.end for one in places)
        return fence[0] if inside or not parse(fence[1]) else fence[1].strip()

    places = locate(text)
    unwrapped = _FENCED.sub(bare, text)
    # A fence that ends within an operation is not round it: taken away, it would change what is written.
    return unwrapped if parse(unwrapped) == [one.found for one in places] else text


def _cut_at_done(text: str) -> str:
    ends = [one.end for one in locate(text) if one.found == Operation("DONE", ())]
    return text[: ends[0]] if ends else text


def _cut_at_action(text: str) -> str:
    """Everything before the first ACTION, be it well-formed or not."""
    for one in locate(text):
        source = text[one.start : one.end]
        named = one.found.name == "ACTION" if isinstance(one.found, Operation) else without(source, "ACTION") != source
        if named:
            return text[: one.start]
    return text


def _tail(text: str) -> str:
    """What stands behind the last well-formed operation."""
    places = [one for one in locate(text) if isinstance(one.found, Operation)]
    return text[places[-1].end :].strip() if places else text.strip()


def _fenced_outside(text: str) -> bool:
    """Whether a fence stands outside the operations."""
    kept, position = [], 0
    for one in locate(text):
        if isinstance(one.found, Operation):
            kept.append(text[position : one.start])
            position = one.end
    return _FENCE in "".join([*kept, text[position:]])


def _is_memory(found: object) -> bool:
    """Whether this is an operation on memory, or the DONE that ends them."""
    return isinstance(found, Operation) and found.name in OPERATIONS and found.name != "ACTION"


def _clean_calls(message: Message, phase: Phase) -> Message:
    """The same in the tools dialect, where an operation is a native call and has no tail."""
    last = "DONE" if phase == "log" else "ACTION"
    calls = message["tool_calls"]
    names = [call["name"].strip().upper() for call in calls]
    end = names.index(last) + (phase == "log") if last in names else len(calls)
    kept = calls[:end]
    if not any(_is_memory(found) for found in parse_tool_calls(kept)):
        raise Dropped("no_operation")
    if _FENCE in message["content"]:
        raise Dropped("fence")
    return cast(Message, {**message, "tool_calls": kept})


def _paired(messages: Sequence[Message]) -> list[Message]:
    """Without the answers to native calls that were cut away."""
    asked = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    return [message for message in messages if message["role"] != "tool" or message.get("tool_call_id") in asked]
