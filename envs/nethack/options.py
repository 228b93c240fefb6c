"""Options of the games: one way to check them, for NetHack and MiniHack."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from automem.errors import UsageError, did_you_mean

from .text import WORDINGS

T = TypeVar("T")


def check(env: str, kind: type[T], options: dict[str, Any]) -> T:
    """`options` as the dataclass `kind`, each of the type of its default; whole numbers are at least 1.

    Raises:
        UsageError: unknown option, wrong type, or a value out of range.
    """
    defaults = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for name, value in options.items():
        if name not in defaults:
            raise UsageError(f"environment '{env}' has no option '{name}'", did_you_mean(name, defaults))
        _check(f"{env}: {name}", value, type(defaults[name]))
    wording = options.get("wording", "words")
    if wording not in WORDINGS:
        raise UsageError(f"{env}: wording must be one of {', '.join(WORDINGS)}, not {wording!r}")
    return kind(**options)


def _check(what: str, value: Any, kind: type) -> None:
    if type(value) is not kind:
        names = {int: "a whole number", bool: "true or false", str: "a text"}
        raise UsageError(f"{what} must be {names[kind]}, not {value!r}")
    if isinstance(value, int) and kind is int and value < 1:
        raise UsageError(f"{what} must be at least 1, not {value!r}")
