"""Boxoban: levels from a folder, one chosen by the seed."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from automem.env import shown
from automem.errors import UsageError

with warnings.catch_warnings():
    # minihack imports pkg_resources, which warns that it is deprecated.
    warnings.simplefilter("ignore")
    from minihack.envs.boxohack import MOVE_ACTIONS, BoxoHack

VARIABLE = "AUTOMEM_BOXOBAN_LEVELS"
#: The squares of a level: wall, floor, player, box, goal.
_SQUARES = "# @$."
#: The largest level that the game's map holds; of a larger one the library makes none, and plays the one before.
_WIDEST, _HIGHEST = 76, 21
_FORM = f"a level is a line '; NUMBER' and rows of '{_SQUARES}', all as wide, with one @ and a $ for every ."
_HINT = (
    "git clone --depth 1 https://github.com/google-deepmind/boxoban-levels, "
    f"then set the option levels or ${VARIABLE} to that folder, which holds hard and medium/train"
)


class Levels:
    """The levels of one set, such as `hard`, below the folder of all sets."""

    def __init__(self, root: str, name: str) -> None:
        place = root or os.environ.get(VARIABLE, "")
        if not place:
            raise UsageError("boxoban needs a folder with levels", _HINT)
        self._files = _files(Path(place) / name)
        # Many seeds fall on few files.
        self._read = lru_cache(maxsize=8)(read_levels)

    def choose(self, seed: int) -> str:
        """The level of `seed`: rows of characters, each with its newline.

        Raises:
            UsageError: the file it falls on has something in it that is no level.
        """
        draw = random.Random(seed)
        return draw.choice(self._read(draw.choice(self._files)))


def _files(folder: Path) -> list[Path]:
    try:
        # Sorted, because folders list their files in any order.
        files = sorted(path for path in folder.iterdir() if path.suffix == ".txt")
    except (OSError, ValueError) as error:  # the latter: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"boxoban: no levels *.txt in '{folder}': {reason}", _HINT) from error
    if not files:
        raise UsageError(f"boxoban: no levels *.txt in '{folder}'", _HINT)
    return files


def read_levels(file: Path) -> list[str]:
    """The levels of `file`: each begins with a line `; NUMBER`, then come its rows; blank lines do not count.

    Raises:
        UsageError: it cannot be read, or holds something that is no level; names file and level.
    """
    levels: list[tuple[str, list[str]]] = []
    for number, line in enumerate(_text(file).splitlines(), 1):
        if line.startswith(";"):
            levels.append((line[1:].strip() or f"number {len(levels) + 1}", []))
        elif line.strip() and not levels:
            raise UsageError(f"boxoban: {file}, line {number}: {shown(line)} stands before the first level", _FORM)
        elif line.strip():
            levels[-1][1].append(line)
    if not levels:
        raise UsageError(f"boxoban: no level in '{file}'", _FORM)
    for name, rows in levels:
        if fault := _fault(rows):
            raise UsageError(f"boxoban: {file}, level {name[:40]}: {fault}", _FORM)
    return ["".join(f"{row}\n" for row in rows) for _, rows in levels]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"boxoban: {file}: not UTF-8 text", _FORM) from error
    except OSError as error:
        raise UsageError(f"boxoban: cannot read {file}: {error.strerror}", _FORM) from error


def _fault(rows: Sequence[str]) -> str | None:
    """Why `rows` are no level that can be played and won."""
    squares = "".join(rows)
    if not rows:
        return "it has no rows"
    if alien := set(squares) - set(_SQUARES):
        return f"{min(alien)!r} is none of '{_SQUARES}'"
    if uneven := next((row for row in rows if len(row) != len(rows[0])), None):
        return f"rows of {len(rows[0])} and of {len(uneven)} characters"
    if len(rows[0]) > _WIDEST or len(rows) > _HIGHEST:
        return f"{len(rows[0])} by {len(rows)} squares, but the map has {_WIDEST} by {_HIGHEST}"
    if (players := squares.count("@")) != 1:
        return f"{players} players @, not one"
    boxes, goals = squares.count("$"), squares.count(".")
    # The game is won when the boxes stand on the goals and no goal and no box is left.
    return f"{boxes} boxes $ for {goals} goals ." if boxes != goals or not goals else None


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
