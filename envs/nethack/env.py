"""`TextGame`: a game of the NetHack family behind the contract of `automem.env.Env`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from automem.env import ActionSpace, Env, TextSpace

from . import keys, text
from .facts import Landmarks, gather
from .keys import Keys
from .screen import Game, Outcome


@dataclass(frozen=True)
class Rules:
    """What makes one game of the family, and how it is told."""

    instructions: str
    actions: Keys
    default_action: str
    max_steps: int
    #: Steps without a turn of the game passing after which the episode is truncated; None: no such end.
    patience: int | None
    #: Progress of a state; the best so far counts.
    progress: Callable[[dict[str, Any]], float]
    #: One of `text.WORDINGS`.
    wording: str
    #: Whether the turn counter of the status line is told.
    clock: bool
    #: Whether positions begin with the dungeon level.
    levels: bool
    #: Name of the task, told in `info["state"]`.
    task: str


class TextGame(Env):
    """NetHack or a task of MiniHack as text."""

    def __init__(self, game: Game, rules: Rules) -> None:
        self.rules = rules
        self.instructions = rules.instructions
        self.actions = tuple(rules.actions)
        self.default_action = rules.default_action
        self.max_steps = rules.max_steps
        self.action_space = ActionSpace(self.actions)
        self.observation_space = TextSpace()
        self._game = game
        self._landmarks = Landmarks()
        self._steps = self._idle = 0
        self._progress = 0.0
        self._state: dict[str, Any] = {}
        self._parts: dict[str, str] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the game of `seed`; without one, the next of the env's own generator."""
        super().reset(seed=seed)
        # Raw bits, because numpy promises them to stay the same between its versions.
        drawn = seed if seed is not None else int(self.np_random.bit_generator.random_raw())
        self._landmarks = Landmarks()
        self._steps = self._idle = 0
        self._progress = 0.0
        return self._tell(Outcome(self._game.begin(drawn), 0.0))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play `action`; pages of a long message are turned within the step.

        Raises:
            ValueError: it is not in `actions`.
        """
        if action not in self.rules.actions:
            raise ValueError(f"the game has no action {action!r}; actions: {', '.join(self.actions)}")
        turn = self._state["turn"]
        outcome = self._game.press(self.rules.actions[action])
        self._steps += 1
        observation, info = self._tell(outcome)
        self._idle = self._idle + 1 if self._state["turn"] == turn else 0
        waited = self.rules.patience is not None and self._idle >= self.rules.patience
        over = bool(outcome.ending)
        truncated = not over and (waited or self._steps >= self.max_steps)
        return observation, outcome.reward, over, truncated, info

    def check_seeds(self, seeds: Iterable[int]) -> None:
        """Read the level of each seed, where levels come from files."""
        for seed in seeds:
            self._game.prepare(seed)

    def find_action(self, text: str) -> str | None:
        """The action that `text` names: by name, key or word; letters are told apart by case."""
        return keys.find(text, self.rules.actions)

    def close(self) -> None:
        """End the game's library."""
        self._game.close()

    def _tell(self, outcome: Outcome) -> tuple[str, dict[str, Any]]:
        """Observation and info; after the end they repeat what was last seen of the game."""
        screen = outcome.screen
        if outcome.ending:
            self._parts = text.ended(self._parts, screen.message, outcome.ending)
            self._state = {**self._state, "message": screen.message, "prompt": None, "over": outcome.ending}
        else:
            self._parts = text.sections(screen, self.rules.wording, self.rules.clock)
            self._state = {"task": self.rules.task, **gather(screen, self._landmarks)}
            if self.rules.levels:
                self._state["position"] = [self._state["dlvl"], *self._state["position"]]
        self._progress = max(self._progress, self.rules.progress(self._state))
        return text.join(self._parts), {"progress": self._progress, "state": self._state}
