"""Names of actions and the keys they press."""

from __future__ import annotations

import string
from collections.abc import Iterable

from nle import nethack as nh

#: An action's name -> the keys it presses, in order.
Keys = dict[str, tuple[int, ...]]

COMPASS = {
    "north": "k",
    "east": "l",
    "south": "j",
    "west": "h",
    "northeast": "u",
    "southeast": "n",
    "southwest": "b",
    "northwest": "y",
}
MORE = ord("\r")
_NAMES: dict[int, str] = {
    **{int(command): command.name.lower() for command in reversed(nh.Command)},
    **{int(way): way.name.lower() for way in (*nh.MiscDirection, *nh.MiscAction)},
    int(nh.Command.TURN): "turnundead",
    int(nh.TextCharacters.SPACE): "space",
    **{ord(letter): name for name, letter in COMPASS.items()},
    **{ord(letter.upper()): f"far {name}" for name, letter in COMPASS.items()},
}
#: Words that models write for a key.
_SPOKEN = {"yes": "y", "no": "n", "escape": "\x1b", "enter": "\r", "return": "\r", "self": "."}


def named(actions: Iterable[int]) -> Keys:
    """Names for what a library's environment can press, in its order."""
    return {_NAMES[int(action)]: (int(action),) for action in actions if int(action) in _NAMES}


def nethack_keys() -> Keys:
    """The literature's actions: the useful commands by name, letters, digits, and numbers of two digits."""
    characters = {key: (ord(key),) for key in string.ascii_letters + string.digits}
    numbers = {str(count): tuple(ord(digit) for digit in str(count)) for count in range(10, 100)}
    return named(nh.USEFUL_ACTIONS) | characters | numbers


def find(text: str, keys: Keys) -> str | None:
    """The action that `text` names: by name, by a key such as `>`, or by a word such as `yes`.

    A single letter is that very key, so its case matters; elsewhere case, spaces, hyphens and underscores do not.
    """
    wanted = text if text == " " else text.strip()
    if wanted in keys:
        return wanted
    if len(wanted) > 1:
        folded = _fold(wanted)
        for name in keys:
            if len(name) > 1 and _fold(name) == folded:
                return name
    key = _SPOKEN.get(wanted.casefold(), wanted)
    if key in keys:
        return key
    pressed = (ord(key),) if len(key) == 1 and key.isascii() else ()
    return next((name for name, codes in keys.items() if codes == pressed), None)


def _fold(text: str) -> str:
    return "".join(text.casefold().replace("_", " ").replace("-", " ").split())
