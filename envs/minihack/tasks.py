"""The eight tasks of MiniHack that the literature plays."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

with warnings.catch_warnings():
    # minihack imports pkg_resources, which warns that it is deprecated.
    warnings.simplefilter("ignore")
    from minihack.envs.corridor import MiniHackCorridor3
    from minihack.envs.fightcorridor import MiniHackFightCorridorDark
    from minihack.envs.mazewalk import MiniHackMazeWalk9x9, MiniHackMazeWalk15x15
    from minihack.envs.skills_quest import MiniHackQuestEasy, MiniHackQuestMedium


@dataclass(frozen=True)
class Task:
    """What a task is for, and how it is made: by a class of the library, or from a set of Boxoban levels."""

    goal: str
    library: Any = None
    levels: str = ""


_STAIRS = "The goal is to reach the stairs down, >. The game ends there; you need not take them."
_MAZE = f"You stand in a maze of narrow passages. {_STAIRS}"
_QUEST = f"Explore the level, fight monsters, find your way through rooms and past obstacles. {_STAIRS}"
_BOXOBAN = (
    "A puzzle of pushing boulders: stand beside a boulder, `, and move into it to push it one square, where nothing "
    "is behind it. You can push but not pull, and only in the four directions. # is wall. The goal is a boulder on "
    "every fountain, {."
)

TASKS = {
    "mazewalk-9x9": Task(_MAZE, MiniHackMazeWalk9x9),
    "mazewalk-15x15": Task(_MAZE, MiniHackMazeWalk15x15),
    "corridor-r3": Task(f"Three rooms are joined by winding corridors. {_STAIRS}", MiniHackCorridor3),
    "corridorbattle-dark": Task(f"Dark rooms are joined by a corridor. {_STAIRS}", MiniHackFightCorridorDark),
    "quest-easy": Task(_QUEST, MiniHackQuestEasy),
    "quest-medium": Task(_QUEST, MiniHackQuestMedium),
    "boxoban-medium": Task(_BOXOBAN, levels="medium/train"),
    "boxoban-hard": Task(_BOXOBAN, levels="hard"),
}
