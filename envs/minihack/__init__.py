"""MiniHack as text: eight small tasks in the world of NetHack. `docs/nethack.md` tells the rest."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from automem import plugins
from automem.errors import UsageError

from . import tasks
from .boxoban import VARIABLE, Boxoban, Levels

if TYPE_CHECKING:
    from envs import nethack
else:
    nethack = plugins.load_module(plugins.find(plugins.ENV, "nethack"))

TASKS = tuple(tasks.TASKS)
_OF_FILES = tuple(name for name, task in tasks.TASKS.items() if task.levels)
_FOR_ALL = f"leave it out; where several tasks are played, set ${VARIABLE} instead"

#: The actions of the literature; each task has those that its library offers.
ACTIONS = frozenset(
    [
        *("north", "east", "south", "west", "northeast", "southeast", "southwest", "northwest"),
        *("far north", "far east", "far south", "far west"),
        *("far northeast", "far southeast", "far southwest", "far northwest"),
        *("up", "down", "wait", "more", "apply", "close", "open", "eat", "force", "kick"),
        *("loot", "pickup", "pray", "puton", "quaff", "search", "zap"),
    ]
)
_INSTRUCTIONS = """\
You play a small task in the world of NetHack. {goal}

You have {steps} steps. The score is 1 when the goal is reached, and 0 otherwise.

{read}

The compass names move one step, push or attack. An open door cannot be entered or left \
diagonally; an empty doorway or a broken door can.

{answer}"""
_ANSWERS = """\
A question is answered by the next action: a direction by a compass name, yes by y and no by n, which are the keys of \
northwest and southeast. The game declines most questions by itself."""


@dataclass(frozen=True)
class Options:
    """How a task is set up; the defaults are the literature's."""

    #: Steps after which the episode is truncated.
    length: int = 100
    #: Whether things are picked up by walking onto them.
    autopickup: bool = True
    #: How distances are told: a key of nethack's `text.WORDINGS`.
    wording: str = "published"
    #: Offer single letters as actions too, where the task knows them, so that items can be named.
    letters: bool = False
    #: Folder with the levels of Boxoban; "" takes it from the environment variable AUTOMEM_BOXOBAN_LEVELS.
    levels: str = ""


def make(task: str, **options: Any) -> nethack.TextGame:
    """Make the environment of `task`; `options` are the fields of `Options`.

    Raises:
        UsageError: an option that is unknown or means nothing to the task, a value out of range, or no levels for
            Boxoban.
    """
    chosen = nethack.check("minihack", Options(), options)
    if chosen.levels and not tasks.TASKS[task].levels:
        raise UsageError(f"minihack: levels has no meaning for {task}, only for {', '.join(_OF_FILES)}", _FOR_ALL)
    library, choose = _library(tasks.TASKS[task], chosen)
    game = nethack.Game(library, choose)
    actions = {name: keys for name, keys in nethack.named(game.actions).items() if name in ACTIONS}
    if chosen.letters:
        actions |= {chr(key): (key,) for key in game.actions if chr(key) in string.ascii_letters}
    answer = nethack.HOW_TO_ANSWER if chosen.letters else _ANSWERS
    rules = nethack.Rules(
        instructions=_INSTRUCTIONS.format(
            goal=tasks.TASKS[task].goal, steps=chosen.length, read=nethack.HOW_TO_READ, answer=answer
        ),
        actions=actions,
        default_action="north",
        max_steps=chosen.length,
        patience=None,
        progress=lambda state: float(state["over"] == "won"),
        wording=chosen.wording,
        clock=False,
        levels=False,
        task=task,
    )
    return nethack.TextGame(game, rules)


def _library(task: tasks.Task, chosen: Options) -> tuple[Any, Callable[[int], None] | None]:
    """The library's environment, and what it needs before the game of a seed."""
    settings = {
        "max_episode_steps": nethack.NO_LIMIT,
        "penalty_step": -0.01,
        "autopickup": chosen.autopickup,
        "fix_moon_phase": True,
        "render_mode": None,
    }
    if not task.levels:
        return task.library(**settings), None
    levels = Levels(chosen.levels, task.levels)
    library = Boxoban(levels.choose(0), **settings)
    return library, lambda seed: library.use(levels.choose(seed))
