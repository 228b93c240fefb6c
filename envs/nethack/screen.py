"""A running game of NetHack: keys go in, screens come out. Seeds, pages and prompts are handled here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nle import nethack as nh

from . import language
from .keys import MORE
from .language import Array

#: The library's own limits on steps are set out of reach: ours count the agent's steps, not pages turned.
NO_LIMIT = 10**9
#: Seeds of the game's own generators.
_SEEDS = 2**32
_MORE = "--More--"
#: Places of the game's own flags among its `internal` values.
_YES_NO, _LINE, _WAITING = 1, 2, 3


@dataclass(frozen=True)
class Screen:
    """What the game shows now; arrays are the library's buffers and hold until the next key.

    `message` has its pages joined. `asks` names what the game waits for: "direction", "item", "yes/no",
    "choice", "text", "position", "menu" or "more"; None when it waits for a command.
    """

    glyphs: Array
    blstats: Array
    tty_chars: Array
    tty_cursor: Array
    inv_strs: Array
    inv_letters: Array
    message: str
    asks: str | None


@dataclass(frozen=True)
class Outcome:
    """What came of an action. When the game is over, the screen holds a list of scores and no map.

    `ending` is "" while the game goes on, then "won" for a goal of MiniHack reached, or what the game calls it:
    "died", "starving", "escaped", …
    """

    screen: Screen
    reward: float
    ending: str = ""


class Game:
    """The library's environment `nle`, played by key codes; `choose` is called with the seed before each game."""

    def __init__(self, nle: Any, choose: Callable[[int], None] | None = None) -> None:
        self._nle = nle
        self._choose = choose
        self._index = {int(action): index for index, action in enumerate(nle.actions)}

    @property
    def actions(self) -> tuple[int, ...]:
        """Key codes that can be pressed."""
        return tuple(self._index)

    def prepare(self, seed: int) -> None:
        """Have ready what the game of `seed` needs, without beginning it.

        Raises:
            UsageError: something is wrong with it.
        """
        if self._choose is not None:
            self._choose(seed % _SEEDS)

    def begin(self, seed: int) -> Screen:
        """A new game; the same seed is the same game."""
        self.prepare(seed)
        core = seed % _SEEDS
        # The library's own seed() is forbidden in the challenge, and forgotten after one reset everywhere.
        nh.Nethack.set_initial_seeds(self._nle.nethack, core, core, False)
        self._nle.reset()
        return self._turn_pages(Outcome(self._screen(), 0.0)).screen

    def press(self, keys: Sequence[int]) -> Outcome:
        """Press `keys` one after the other, then turn the pages of what the game has to say."""
        outcome = self._press(keys[0])
        for key in keys[1:]:
            if outcome.ending:
                break
            following = self._press(key)
            outcome = replace(following, reward=outcome.reward + following.reward)
        return self._turn_pages(outcome)

    def close(self) -> None:
        """End the game's library."""
        self._nle.close()

    def _press(self, key: int) -> Outcome:
        _, reward, terminated, _, info = self._nle.step(self._index[key])
        ending = ""
        if terminated:
            # A goal of MiniHack ends the game by quitting it.
            won = info["end_status"].name == "TASK_SUCCESSFUL"
            ending = "won" if won else self._nle.nethack.how_done().name.lower()
        return Outcome(self._screen(), float(reward), ending)

    def _turn_pages(self, outcome: Outcome) -> Outcome:
        """Join a message that goes on behind `--More--`."""
        pages: list[str] = []
        reward = outcome.reward
        while _MORE in outcome.screen.message and not outcome.ending and MORE in self._index:
            pages.append(outcome.screen.message.replace(_MORE, "").rstrip())
            outcome = self._press(MORE)
            reward += outcome.reward
        message = "\n".join(part for part in (*pages, outcome.screen.message) if part)
        return replace(outcome, screen=replace(outcome.screen, message=message), reward=reward)

    def _screen(self) -> Screen:
        # The environments of MiniHack do not hand out all of these, so they are read where all are kept.
        shown = dict(zip(self._nle._observation_keys, self._nle.last_observation, strict=True))
        message = language.message(shown["tty_chars"])
        return Screen(
            glyphs=shown["glyphs"],
            blstats=shown["blstats"],
            tty_chars=shown["tty_chars"],
            tty_cursor=shown["tty_cursor"],
            inv_strs=shown["inv_strs"],
            inv_letters=shown["inv_letters"],
            message=message,
            asks=_asked(message, shown["internal"]),
        )


def _asked(message: str, internal: Array) -> str | None:
    """What the game waits for, from its own flags and the wording of the question."""
    if internal[_LINE]:
        return "text"
    if internal[_YES_NO]:
        if "direction" in message:
            return "direction"
        if "*]" in message:
            return "item"
        return "yes/no" if "[yn" in message else "choice"
    if internal[_WAITING]:
        return "more" if _MORE in message else "menu"
    return "position" if "(For instructions type a ?)" in message else None
