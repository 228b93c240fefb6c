"""`CrafterEnv`: Crafter behind the contract of `automem.env.Env`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from automem.env import ActionSpace, Env, TextSpace, for_example, shown
from automem.errors import UsageError

from . import frames, rules, text, view
from .simulator import Simulator

RENDER_MODE = "rgb_array"
SMALLEST = 9
#: A map of this size takes the library about a minute to make; memory and time grow with its square.
LARGEST = 256
LARGEST_FRAME = 4096


@dataclass(frozen=True)
class Options:
    """How the game is set up; the defaults are the literature's, but for `position`."""

    #: Steps after which the episode is truncated.
    length: int = 2000
    #: Width and height of the map, in squares.
    area: int = 64
    #: Tell the position, in the text and in the state, counted from the start.
    position: bool = True
    #: None, or "rgb_array" for frames by `render()`.
    render_mode: str | None = None
    #: Width and height of a frame, in pixels.
    size: int = 288

    def __post_init__(self) -> None:
        if self.length < 1:
            message = f"crafter: length must be at least 1, not {shown(self.length)}"
            raise UsageError(message, for_example("length", Options.length))
        for name, most, default in (("area", LARGEST, Options.area), ("size", LARGEST_FRAME, Options.size)):
            value = getattr(self, name)
            if not SMALLEST <= value <= most:
                message = f"crafter: {name} must be {SMALLEST} to {most}, not {shown(value)}"
                raise UsageError(message, for_example(name, default))
        if self.render_mode not in (None, RENDER_MODE):
            message = f"crafter: render_mode must be '{RENDER_MODE}' or none, not {shown(self.render_mode)}"
            raise UsageError(message, for_example("render_mode", RENDER_MODE))


class CrafterEnv(Env):
    """Crafter as text.

    The reward is the library's: a tenth of the change of health, plus 1 on a step that unlocks something.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # gymnasium declares it on instances
        "render_modes": [RENDER_MODE],
        "render_fps": 5,
    }

    def __init__(self, options: Options) -> None:
        self.options = options
        self.render_mode = options.render_mode
        self.actions = tuple(rules.ACTIONS)
        self.default_action = rules.NOOP
        self.max_steps = options.length
        self.instructions = rules.instructions(options.area, options.length, options.position)
        self.action_space = ActionSpace(self.actions)
        self.observation_space = TextSpace()
        self.simulator = Simulator(options.area)
        self._seed = 0
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """A new world; without `seed` the next one of the env's own generator."""
        super().reset(seed=seed)
        # Raw bits, because numpy promises them to stay the same between its versions.
        self._seed = int(self.np_random.bit_generator.random_raw()) % 2**32
        self._step = 0
        self.simulator.begin(self._seed)
        return self._observe()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play `action`.

        Raises:
            ValueError: it is not in `actions`.
        """
        if action not in rules.ACTIONS:
            raise ValueError(f"crafter has no action {action!r}; actions: {', '.join(self.actions)}")
        player = self.simulator.player
        health, unlocked = player.health, len(self.simulator.unlocked())
        self._step += 1
        self.simulator.advance(rules.ACTIONS[action])
        observation, info = self._observe()
        state = info["state"]
        reward = (player.health - health) / 10 + (len(state["achievements"]) > unlocked)
        return observation, float(reward), state["dead"], self._step >= self.max_steps, info

    def render(self) -> np.ndarray[Any, Any] | None:  # type: ignore[override]  # it leaves its type open
        """The current frame, uint8 of shape (size, size, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        return frames.draw(self.simulator, self.options.size, self._seed, self._step)

    def _observe(self) -> tuple[str, dict[str, Any]]:
        state = view.facts(self.simulator, self._step, self.options.position)
        progress = len(state["achievements"]) / len(rules.ACHIEVEMENTS)
        return text.describe(state), {"progress": progress, "state": state}
