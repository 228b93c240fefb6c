"""Boxoban: levels from a folder, one chosen by the seed."""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path
from typing import Any

from automem.errors import UsageError

with warnings.catch_warnings():
    # minihack imports pkg_resources, which warns that it is deprecated.
    warnings.simplefilter("ignore")
    from minihack.envs.boxohack import MOVE_ACTIONS, BoxoHack

VARIABLE = "AUTOMEM_BOXOBAN_LEVELS"
_HINT = (
    "git clone --depth 1 https://github.com/google-deepmind/boxoban-levels, "
    f"then set the option levels or ${VARIABLE} to that folder"
)


class Levels:
    """The levels of one set, such as `hard`, below the folder of all sets."""

    def __init__(self, root: str, name: str) -> None:
        place = root or os.environ.get(VARIABLE, "")
        if not place:
            raise UsageError("boxoban needs a folder with levels", _HINT)
        folder = Path(place) / name
        # Sorted, because folders list their files in any order.
        self._files = sorted(folder.glob("*.txt"))
        if not self._files:
            raise UsageError(f"boxoban: no levels *.txt in '{folder}'", _HINT)

    def choose(self, seed: int) -> str:
        """The level of `seed`: rows of characters, each with its newline.

        Raises:
            UsageError: the file it falls on has no level in it.
        """
        draw = random.Random(seed)
        file = draw.choice(self._files)
        levels = read_levels(file.read_text(encoding="utf-8"))
        if not levels:
            raise UsageError(f"boxoban: no level in '{file}'", "a level is a line '; NUMBER' and rows of '# @$.'")
        return draw.choice(levels)


def read_levels(text: str) -> list[str]:
    """The levels of a file: each begins with a line `; NUMBER`, and blank lines part them."""
    levels: list[str] = []
    for line in text.splitlines():
        if line.startswith(";"):
            levels.append("")
        elif line.strip():
            levels[-1:] = [(levels[-1] if levels else "") + line + "\n"]
    return [level for level in levels if level]


class Boxoban(BoxoHack):  # type: ignore[misc]  # the library has no types
    """The library's Boxoban with a level that is given.

    The library lists the levels in the order of the file system and draws one by the global generator; its
    constructor is passed over, the rest of it is used.
    """

    def __init__(self, level: str, **options: Any) -> None:
        self._levels = [level]
        self._flags = ()
        self._time_penalty = -0.001
        self._reward_shaping_coefficient = 0.1
        # Asked for by the library before its reset has set it.
        self._goal_pos_set = None
        super(BoxoHack, self).__init__(des_file=self.get_lvl_gen().get_des(), actions=MOVE_ACTIONS, **options)

    def use(self, level: str) -> None:
        """Play `level` from the next reset on."""
        self._levels = [level]
