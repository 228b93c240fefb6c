"""Rows as token ids and labels: supervised is the completion, up to the token that ends the turn, and nothing else.

The prompt becomes ids exactly as it does in play. A row that is too long loses text at the front of its prompt, behind
the system message, line by line and then message by message; never a token of the completion.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from automem.errors import UsageError
from automem.train.dataset import Row

IGNORED = -100


@dataclass(frozen=True)
class Encoded:
    """A row for the trainer. `cut` tells that its prompt was shortened."""

    input_ids: list[int]
    labels: list[int]
    cut: bool = False

    @property
    def supervised(self) -> int:
        """Tokens that are trained on."""
        return sum(label != IGNORED for label in self.labels)


def encode(tokenizer: Any, row: Row, cutoff: int, cut: bool, ends: Sequence[int]) -> Encoded | None:
    """Ids and labels of a row of at most `cutoff` tokens; None if it is longer and may not, or cannot, be `cut`.

    `ends` are the tokens that end a turn.

    Raises:
        UsageError: the chat template cannot be trained on.
    """
    prompt = [_templated(message) for message in row.prompt]
    whole = _encode(tokenizer, row, prompt, ends)
    if len(whole.input_ids) <= cutoff:
        return whole
    return _shortened(tokenizer, row, prompt, cutoff, ends) if cut else None


def check_template(tokenizer: Any) -> None:
    """Raise UsageError where there is no chat template."""
    if not tokenizer.chat_template:
        raise UsageError("the tokenizer has no chat template", "put a chat_template.jinja beside the base model")


def _encode(tokenizer: Any, row: Row, prompt: list[dict[str, Any]], ends: Sequence[int]) -> Encoded:
    asked, completion = _texts(tokenizer, row, prompt)
    before = tokenizer(asked, add_special_tokens=False)["input_ids"]
    reply = tokenizer(completion, add_special_tokens=False)["input_ids"]
    last = max((place for place, token in enumerate(reply) if token in ends), default=None)
    if last is None:
        raise UsageError(
            "the chat template does not end an assistant turn with a token that ends a reply: what is trained on "
            "it never stops",
            "let the template put the tokenizer's eos token behind each assistant message",
        )
    reply = reply[: last + 1]
    return Encoded([*before, *reply], [*[IGNORED] * len(before), *reply])


def _texts(tokenizer: Any, row: Row, prompt: list[dict[str, Any]]) -> tuple[str, str]:
    """The prompt as it is sent, and what follows on it when the completion is there."""
    from jinja2 import TemplateError

    tools = row.tools or None
    answer = [_templated(message) for message in row.completion]
    try:
        asked = tokenizer.apply_chat_template(prompt, tools=tools, add_generation_prompt=True, tokenize=False)
        whole = tokenizer.apply_chat_template([*prompt, *answer], tools=tools, tokenize=False)
    except TemplateError as error:
        raise UsageError(
            f"the chat template refuses the row of {row.episode}, step {row.step}: {error}",
            "the base's template must take a system message and turns of user and assistant",
        ) from error
    if not whole.startswith(asked):
        raise UsageError(
            "the chat template writes a prompt otherwise once it has been answered, so that the answer cannot be told "
            "from it",
            "the text with add_generation_prompt must be the beginning of the text with the answer",
        )
    return asked, whole[len(asked) :]


def _shortened(
    tokenizer: Any, row: Row, prompt: Sequence[dict[str, Any]], cutoff: int, ends: Sequence[int]
) -> Encoded | None:
    """The row with as much of the end of its prompt as fits."""
    head = [message for message in prompt if message["role"] == "system"]
    rest = [message for message in prompt if message["role"] != "system"]
    for start, message in enumerate(rest):
        if message["role"] != "user":
            continue
        lines = str(message["content"]).splitlines(keepends=True)
        best, low, high = None, 0, len(lines) - 1
        while low <= high:
            gone = (low + high) // 2
            first = {**message, "content": "".join(lines[gone:])}
            found = _encode(tokenizer, row, [*head, first, *rest[start + 1 :]], ends)
            if len(found.input_ids) <= cutoff:
                best, high = found, gone - 1
            else:
                low = gone + 1
        if best:
            return Encoded(best.input_ids, best.labels, cut=True)
    return None


def _templated(message: dict[str, Any]) -> dict[str, Any]:
    """The message as chat templates read it: arguments of native calls are objects to them."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{**call, "function": _function(call["function"])} for call in calls]}


def _function(function: dict[str, Any]) -> dict[str, Any]:
    try:
        return {**function, "arguments": json.loads(function["arguments"] or "{}")}
    except ValueError:
        return function
