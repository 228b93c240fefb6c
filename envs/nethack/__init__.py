"""NetHack as text: a dungeon of fifty levels. `docs/nethack.md` tells the rest.

What MiniHack needs of it too (`Game`, `Rules`, `TextGame`, options) is asked for through the plugin loader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nle.env.tasks import NetHackChallenge

from .character import check_character
from .env import Rules, TextGame
from .keys import named, nethack_keys
from .manual import HOW_TO_ANSWER, HOW_TO_READ, instructions
from .options import check
from .score import milestone
from .screen import NO_LIMIT, Game

__all__ = ["HOW_TO_ANSWER", "HOW_TO_READ", "NO_LIMIT", "TASKS", "Game", "Rules", "TextGame", "check", "make", "named"]

TASKS = ("default",)


@dataclass(frozen=True)
class Options:
    """How the game is set up; the defaults are the literature's, but for `clock`."""

    #: Steps after which the episode is truncated.
    length: int = 100_000
    #: Steps without a turn passing in the game after which the episode is truncated.
    patience: int = 150
    #: Role, race, gender and alignment or some of them, as in "mon-hum-neu-mal"; "@" lets the seed choose.
    character: str = "@"
    #: How distances are told: a key of `text.WORDINGS`.
    wording: str = "published"
    #: Tell the turn counter, so that every turn is another text.
    clock: bool = False


def make(task: str, **options: Any) -> TextGame:
    """Make the environment; `options` are the fields of `Options`.

    Raises:
        UsageError: unknown option, or a value out of range.
    """
    chosen = check("nethack", Options(), options)
    check_character(chosen.character)
    library = NetHackChallenge(
        character=chosen.character,
        max_episode_steps=NO_LIMIT,
        no_progress_timeout=NO_LIMIT,
        fix_moon_phase=True,
        render_mode=None,
    )
    rules = Rules(
        instructions=instructions(chosen.patience),
        actions=nethack_keys(),
        default_action="esc",
        max_steps=chosen.length,
        patience=chosen.patience,
        progress=lambda state: milestone(state["dlvl"], state["xl"]),
        wording=chosen.wording,
        clock=chosen.clock,
        levels=True,
        task=task,
    )
    return TextGame(Game(library), rules)
