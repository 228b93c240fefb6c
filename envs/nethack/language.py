"""What is on the screen in words, as the language wrapper of the literature says it, in Python.

Each function takes arrays as NLE gives them. A test compares with the compiled wrapper.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .glyphs import FAR_NAMES, IS_FAR, NEAR_NAMES, OPAQUE

Array = np.ndarray[Any, Any]

WIDTH, HEIGHT = 79, 21
_SIGHT = 9
#: Distances in the order in which they are told.
DISTANCES = ("very far", "far", "near", "very near", "adjacent")
#: Directions in the order in which they are told: clockwise from north.
DIRECTIONS = (
    *("north", "northnortheast", "northeast", "eastnortheast"),
    *("east", "eastsoutheast", "southeast", "southsoutheast"),
    *("south", "southsouthwest", "southwest", "westsouthwest"),
    *("west", "westnorthwest", "northwest", "northnorthwest"),
)
#: Where a straight look goes, in the order of the wrapper: clockwise from east.
_RAYS = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
_MASS_NOUNS = ("boots", "shoes", "scales", "lenses", "bars")
_PLURAL_OF = {
    "can of grease": "cans of grease",
    "Master of Thieves": "Masters of Thieves",
    "ice": "area of ice",
    "lava": "area of lava",
}
_PLURAL_FIRST_WORD = ("boom ", "shield ", "swallow ", "scroll ", "worthless piece ", "unknown creature ")

#: Something seen: its name, and the places of its distance and direction in the lists above.
Seen = tuple[str, int, int]
#: A line of the description: name, distance, directions.
Line = tuple[str, str, list[str]]


def describe(glyphs: Array, x: int, y: int) -> list[Line]:
    """What there is to see for a player at column `x` and row `y` of `glyphs`, farthest first."""
    flat = glyphs.ravel()
    numbers = flat.tolist()
    here = y * WIDTH + x
    seen = [
        (FAR_NAMES[numbers[place]], *bearing(place % WIDTH - x, place // WIDTH - y))
        for place in np.flatnonzero(IS_FAR[flat]).tolist()
        if place != here
    ]
    for step in _RAYS:
        seen += _look_along(numbers, x, y, step)
    seen.sort(key=lambda thing: thing[1:])
    return _grouped(seen)


@cache
def bearing(dx: int, dy: int) -> tuple[int, int]:
    """Places, in `DISTANCES` and `DIRECTIONS`, of what lies `dx` columns east and `dy` rows south."""
    across, down = abs(dx), abs(dy)
    steps = max(across, down)
    distance = 0 if steps > 19 or not steps else 1 if steps > 5 else 2 if steps > 2 else 5 - steps
    vertical = "south" if dy > 0 else "north"
    horizontal = "west" if dx < 0 else "east"
    straight = "" if across == down else vertical if down > across else horizontal
    slant = vertical + horizontal if across and down else ""
    name = straight + slant
    return distance, DIRECTIONS.index(name) if name else 0


def _look_along(numbers: list[int], x: int, y: int, step: tuple[int, int]) -> list[Seen]:
    """What a straight look meets within nine squares."""
    seen: list[Seen] = []
    for offset in range(1, _SIGHT + 1):
        dx, dy = step[0] * offset, step[1] * offset
        if not (0 <= x + dx < WIDTH and 0 <= y + dy < HEIGHT):
            break
        glyph = numbers[(y + dy) * WIDTH + x + dx]
        name = NEAR_NAMES[glyph]
        if name:
            seen.append((name, *bearing(dx, dy)))
            if OPAQUE[glyph]:
                break
    return seen


def _grouped(seen: list[Seen]) -> list[Line]:
    """One line for each name and distance; directions with more than one of them go to a line in the plural."""
    counts: dict[tuple[str, int], dict[int, int]] = {}
    for name, distance, direction in seen:
        directions = counts.setdefault((name, distance), {})
        directions[direction] = directions.get(direction, 0) + 1
    order: list[tuple[str, int]] = []
    told: dict[tuple[str, int], list[str]] = {}
    for (name, distance), directions in counts.items():
        for word, many in ((name, False), (plural(name), True)):
            chosen = [DIRECTIONS[place] for place, count in directions.items() if (count > 1) == many]
            if chosen:
                order.append((word, distance))
                # "bars" is its own plural: the wrapper then tells the second list twice, and so do we.
                told[word, distance] = chosen
    return [(name, DISTANCES[distance], told[name, distance]) for name, distance in order]


@cache
def plural(noun: str) -> str:
    """The plural as the wrapper forms it, which is not always English."""
    if noun.endswith(_MASS_NOUNS):
        return noun
    if noun in _PLURAL_OF:
        return _PLURAL_OF[noun]
    for first in _PLURAL_FIRST_WORD:
        if noun.startswith(first):
            return f"{first.rstrip()}s {noun.removeprefix(first)}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    if noun.endswith("ff"):
        return noun[:-2] + "ves"
    if noun.endswith("f"):
        return noun[:-1] + "ves"
    return noun + ("es" if noun.endswith(("s", "x", "z", "sh")) else "s")


def enumerate_words(words: list[str]) -> str:
    """`a`, `a and b`, or `a, b, and c`."""
    if len(words) < 3:
        return " and ".join(words)
    return ", ".join(words[:-1]) + f", and {words[-1]}"


def cursor(glyphs: Array, x: int, y: int, tty_cursor: Array) -> Line | str:
    """What is under the cursor: a line of the description, or a text for the player or for nothing at all."""
    row, column = int(tty_cursor[0]) - 1, int(tty_cursor[1])
    place = row * WIDTH + column
    if not 0 < place < WIDTH * HEIGHT:
        return ""
    name = FAR_NAMES[int(glyphs.ravel()[place])]
    if (column, row) == (x, y):
        return f"Yourself a {name}"
    distance, direction = bearing(column - x, row - y)
    return name, DISTANCES[distance], [DIRECTIONS[direction]]


def message(tty_chars: Array) -> str:
    """The game's message: the first row of the screen, or the page (menu, list, long message) that begins there.

    Blank rows of a page are left out.
    """
    rows = [row.tobytes().decode("latin-1") for row in tty_chars]
    indent = len(rows[0]) - len(rows[0].lstrip(" "))
    first = _trimmed(rows[0])
    page: list[str] = []
    for row in rows if first else ():
        told = _trimmed(row[indent:])
        if told:
            page.append(told)
        if _ends_page(told):
            return "\n".join(page)
    return first


def _trimmed(row: str) -> str:
    return row.strip(" \x1a")


def _ends_page(row: str) -> bool:
    of = row.find(" of ")
    numbered = of >= 2 and row[of - 2] == "(" and row[of + 5 : of + 6] == ")"
    return numbered or "--More--" in row or "(end)" in row


def inventory(inv_strs: Array, inv_letters: Array) -> list[tuple[str, str]]:
    """Letter and description of each thing carried."""
    letters = inv_letters.tobytes().split(b"\0", 1)[0].decode("latin-1")
    return [
        (letter, row.tobytes().split(b"\0", 1)[0].decode("latin-1"))
        for letter, row in zip(letters, inv_strs, strict=False)
    ]
