"""Table keys: the many ways in which a model writes one key, brought to one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LONGEST_KEY = 200

_INT = re.compile(r"[+-]?[0-9]{1,12}")
_ENDS = "\"'`“”‘’.,;:!?()[]{}<>*# \t"
_ARTICLES = re.compile(r"^(?:(?:the|an?)\s+)+")
_JOINS = re.compile(r"[,;=:\s]+")
_DECLARED = re.compile(r"([A-Za-z_]\w*)\s*(?::\s*(int|text))?", re.ASCII)


class Refused(Exception):
    """What the model asked cannot be done; the message is the answer to it."""


@dataclass(frozen=True)
class KeyPart:
    """One part of a declared key: `level:int` is a whole number, `parcel` or `parcel:text` is text."""

    name: str
    type: Literal["int", "text"]


def key_parts(declared: Sequence[str]) -> tuple[KeyPart, ...]:
    """The declared parts, read from `name`, `name:int` or `name:text`; none declared is one text part.

    Raises:
        ValueError: a part is not of that form, or two have one name.
    """
    parts = []
    for text in declared or ("key",):
        found = _DECLARED.fullmatch(text.strip())
        if not found:
            raise ValueError(f"key part '{text}' is not of the form name, name:int or name:text")
        parts.append(KeyPart(found[1].casefold(), "int" if found[2] == "int" else "text"))
    if len({part.name for part in parts}) < len(parts):
        raise ValueError(f"two key parts have one name: {', '.join(declared)}")
    return tuple(parts)


def normal_key(text: str, parts: Sequence[KeyPart]) -> str:
    """The one spelling of a key: parts in declared order, joined by commas.

    Raises:
        Refused: it does not have the declared parts; the message shows the expected form.
    """
    if "|" in text or "\n" in text:
        raise Refused("a key may not contain '|' or a line break")
    if len(text) > LONGEST_KEY:
        raise Refused(f"a key may have at most {LONGEST_KEY} characters, this one has {len(text)}")
    values = _split(text.replace("\N{MINUS SIGN}", "-").casefold(), parts)
    if len(values) != len(parts):
        raise Refused(_expected(text, parts))
    normal = [_normal_part(value, part) for value, part in zip(values, parts, strict=True)]
    if not all(normal):
        raise Refused(_expected(text, parts))
    return ",".join(normal)


def _split(text: str, parts: Sequence[KeyPart]) -> list[str]:
    """One raw value for each part, or a list of another length."""
    names = "|".join(part.name for part in parts)
    sign = "[=:]" if any(part.type == "text" for part in parts) else "[=:]?"
    named = re.split(rf"(?<!\w)({names})\s*{sign}\s*", text)
    if len(named) > 1:
        values = dict(zip(named[1::2], named[2::2], strict=True))
        complete = len(values) == len(named) // 2 and not named[0].strip(_ENDS)
        return [values[part.name] for part in parts if part.name in values] if complete else []
    if len(parts) == 1:
        return [text]
    listed = text.strip(_ENDS)
    return re.split(r"[,;]", listed) if "," in listed or ";" in listed else listed.split(None, len(parts) - 1)


def _normal_part(text: str, part: KeyPart) -> str:
    bare = text.strip(_ENDS)
    if part.type == "int":
        return str(int(bare)) if _INT.fullmatch(bare) else ""
    joined = _JOINS.sub(" ", text).strip()
    return _without_ends(joined) or joined


def _without_ends(text: str) -> str:
    """Text without quotes and punctuation at its ends and without leading articles, however mixed."""
    while (shorter := _ARTICLES.sub("", text.strip(_ENDS))) != text:
        text = shorter
    return text


def _expected(text: str, parts: Sequence[KeyPart]) -> str:
    names = ",".join(part.name for part in parts)
    example = ",".join("3" if part.type == "int" else "name" for part in parts)
    return f"'{text}' is not a key of this table: a key is {names}, for example {example}"
