"""Options of the games: one way to check them, for NetHack and MiniHack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from automem.env import for_example, shown, with_options
from automem.errors import UsageError, did_you_mean

from .text import WORDINGS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def check(env: str, base: T, options: dict[str, Any]) -> T:
    """The dataclass `base` with `options`, each of the type of its default; whole numbers are at least 1.

    Raises:
        UsageError: unknown option, wrong type, or a value out of range.
    """
    chosen = with_options(env, base, options)
    for name, value in options.items():
        if type(value) is int and value < 1:
            raise UsageError(
                f"{env}: {name} must be at least 1, not {shown(value)}", for_example(name, getattr(base, name))
            )
    wording = options.get("wording", "words")
    if wording not in WORDINGS:
        message = f"{env}: wording must be one of {', '.join(WORDINGS)}, not {shown(wording)}"
        raise UsageError(message, did_you_mean(wording, WORDINGS))
    return chosen
