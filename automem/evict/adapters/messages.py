"""Messages of other packages as the OpenAI API takes them, with the object that each was made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from automem.errors import UsageError


class Borrowed(dict[str, Any]):
    """A chat message that remembers its `original`; two are equal when they say the same."""

    def __init__(self, original: Any, role: str, content: Any, calls: Sequence[tuple[str, Any]]) -> None:
        """`calls` are names and arguments of the tools that the message calls."""
        super().__init__(role=role, content=_content(content))
        if calls:
            self["tool_calls"] = [{"function": {"name": name, "arguments": _text(given)}} for name, given in calls]
        self.original = original


def role_of(name: str, roles: dict[str, str], package: str) -> str:
    """The role of the OpenAI API for a kind of message.

    Raises:
        UsageError: not a message that a model is sent.
    """
    if name not in roles:
        raise UsageError(f"a message of {package} of the kind '{name}' cannot be sent to a model")
    return roles[name]


def _content(content: Any) -> Any:
    """A list of parts may have plain strings among them; only what is text counts."""
    if isinstance(content, str) or not content:
        return content or ""
    return [{"text": part} if isinstance(part, str) else part for part in content]


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
