"""Texts of a trace, stored once per file: a table of blocks, and what stands for a text where it is used.

`pack` and `unpack` do this for a whole step, as JSON data; messages that a call shares with the call before are left
out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

#: Blocks shorter than this are written where they stand; an entry in the table would not be shorter.
_INTERN = 80
_BLANK = re.compile(r"\n\n+")

#: What stands for a text: an entry of the table, the text itself, or pieces of both kinds to be joined.
Parts = int | str | list[int | str]


@dataclass
class TextTable:
    """Text -> table entry, by hash: what a writer needs; the texts themselves are in the file."""

    entries: dict[bytes, int] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)

    def add(self, text: str) -> int:
        """The entry of `text`, a new one where there is none."""
        key = blake2b(text.encode(), digest_size=12).digest()
        if key not in self.entries:
            self.entries[key] = len(self.entries)
            self.fresh.append(text)
        return self.entries[key]

    def put(self, text: str, whole: bool = False) -> Parts:
        """The stored form of `text`: split at blank lines, unless it is known to repeat as a whole."""
        if len(text) < _INTERN:
            return text
        if whole:
            return self.add(text)
        parts: list[int | str] = []
        for block in _blocks(text):
            if len(block) >= _INTERN:
                parts.append(self.add(block))
            elif parts and isinstance(parts[-1], str):
                parts[-1] += block
            else:
                parts.append(block)
        return parts[0] if len(parts) == 1 else parts

    def take_fresh(self) -> list[str]:
        """The texts of new entries since this was asked last."""
        fresh, self.fresh = self.fresh, []
        return fresh


def _blocks(text: str) -> list[str]:
    """`text` cut behind each run of blank lines; the last block is empty where the text ends with one."""
    ends = [blank.end() for blank in _BLANK.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def joined(parts: Parts, texts: Sequence[str]) -> str:
    """The text that `parts` stand for.

    Raises:
        LookupError, TypeError: a piece is no text and no entry of the table `texts`.
    """
    if isinstance(parts, list):
        return "".join(texts[part] if isinstance(part, int) else part for part in parts)
    return texts[parts] if isinstance(parts, int) else parts


def pack(step: dict[str, Any], table: TextTable) -> dict[str, Any]:
    """`step` (as data, changed in place) with its texts in `table`."""
    step["observation"] = table.put(step["observation"])
    before: list[dict[str, Any]] = []
    for call in step.get("calls", ()):
        messages = call["messages"]
        call["shared"] = _shared(before, messages)
        call["messages"] = [
            {**message, "content": table.put(message["content"], whole=message["role"] == "system")}
            for message in messages[call["shared"] :]
        ]
        call["reply"] = table.put(call["reply"])
        for operation in call.get("operations", ()):
            if "result" in operation:
                operation["result"] = table.put(operation["result"])
        before = messages
    return step


def unpack(step: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """What `pack` was given, from what it gave (changed in place) and the texts of the table.

    Raises:
        AttributeError, LookupError, TypeError: `step` is nothing that `pack` gave, or a text is missing.
    """
    text = partial(joined, texts=texts)
    step["observation"] = text(step["observation"])
    before: list[dict[str, Any]] = []
    for call in step.get("calls", ()):
        own = [{**message, "content": text(message["content"])} for message in call["messages"]]
        call["messages"] = before[: call.pop("shared")] + own
        call["reply"] = text(call["reply"])
        for operation in call.get("operations", ()):
            if "result" in operation:
                operation["result"] = text(operation["result"])
        before = call["messages"]
    return step


def _shared(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> int:
    """How many leading messages two calls have in common."""
    count = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        count += 1
    return count
