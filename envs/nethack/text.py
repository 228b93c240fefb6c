"""A screen as the text that the agent reads: message, what is seen, cursor, map, inventory."""

from __future__ import annotations

import re

from . import language
from .facts import player
from .language import Line
from .screen import Screen

_TOLD = "message", "language observation", "cursor", "map", "inventory"
#: Ways to tell distances. The wrapper's five words stand for 1, 2, 3 to 5, 6 to 19 and 20 or more steps.
WORDINGS: dict[str, dict[str, str]] = {
    "words": {},
    "published": {
        "very far": "9+ steps away",
        "far": "5-8 steps away",
        "near": "3-4 steps away",
        "very near": "2 steps away",
        "adjacent": "1 step away (directly reachable)",
    },
    "steps": {
        "very far": "20+ steps away",
        "far": "6-19 steps away",
        "near": "3-5 steps away",
        "very near": "2 steps away",
        "adjacent": "1 step away (directly reachable)",
    },
}
_COMPOUND = re.compile(r"(north|south|east|west)(?=(?:north|south)(?:east|west))")
_CLOCK = re.compile(r" T:\d+")


def sections(screen: Screen, wording: str, clock: bool) -> dict[str, str]:
    """The parts of the observation, by their titles."""
    x, y = player(screen)
    seen = language.describe(screen.glyphs, x, y - 1)
    under = language.cursor(screen.glyphs, x, y - 1, screen.tty_cursor)
    row, column = screen.tty_cursor.tolist()
    words = under if isinstance(under, str) else _cursor_line(under, wording)
    carried = language.inventory(screen.inv_strs, screen.inv_letters)
    parts = (
        screen.message,
        "\n".join(_line(line, wording) for line in seen),
        f"{words}\n(x={column}, y={row})",
        _map(screen, clock),
        "\n".join(f"{letter}: {thing}" for letter, thing in carried),
    )
    return dict(zip(_TOLD, parts, strict=True))


def ended(last: dict[str, str], message: str, ending: str) -> dict[str, str]:
    """The parts after the end of the game: the last map, not the list of scores that follows it."""
    return {**last, "message": "\n".join(part for part in (message, f"The game is over: {ending}.") if part)}


def join(parts: dict[str, str]) -> str:
    """The observation."""
    return "\n\n".join(f"{title}:\n{part}".rstrip() for title, part in parts.items())


def _line(line: Line, wording: str) -> str:
    name, distance, directions = line
    told = WORDINGS[wording].get(distance, distance)
    return f"{name} {told} {language.enumerate_words([_spelled(way, wording) for way in directions])}"


def _cursor_line(line: Line, wording: str) -> str:
    name, distance, directions = line
    told = WORDINGS[wording].get(distance, distance)
    return f"{told} {_spelled(directions[0], wording)} {name}".rstrip()


def _spelled(direction: str, wording: str) -> str:
    """Compass names with a hyphen: east-northeast."""
    return _COMPOUND.sub(r"\1-", direction) if WORDINGS[wording] else direction


def _map(screen: Screen, clock: bool) -> str:
    """The screen without its first row: map and status lines."""
    rows = [row.tobytes().decode("latin-1").rstrip() for row in screen.tty_chars[1:]]
    if not clock:
        rows[-1] = _CLOCK.sub("", rows[-1])
    return "\n".join(rows)
