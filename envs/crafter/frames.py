"""Pictures of the game, for people. Drawing one never changes the episode."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from crafter import constants, engine

from .simulator import VIEW, Simulator

#: Squares of a frame: the view, and below it two rows of inventory.
GRID = (9, 9)


@cache
def _textures() -> Any:
    return engine.Textures(constants.root / "assets")


def draw(simulator: Simulator, size: int, seed: int, step: int) -> np.ndarray[Any, Any]:
    """The frame of `step` as uint8 of shape (size, size, 3).

    Night noise comes from a generator of its own, seeded by the episode and the step, so a frame is the
    same however often it is drawn.
    """
    world, unit = simulator.world, np.array((size, size)) // GRID
    scene = engine.LocalView(world, _textures(), VIEW)
    pockets = engine.ItemView(_textures(), (GRID[0], GRID[1] - VIEW[1]))
    world_random, world.random = world.random, np.random.RandomState([seed, step])
    try:
        top = scene(simulator.player, unit)
    finally:
        world.random = world_random
    picture = np.concatenate([top, pockets(simulator.player.inventory, unit)], axis=1)
    canvas = np.zeros((size, size, 3), np.uint8)
    (x, y), (width, height) = (size - unit * GRID) // 2, picture.shape[:2]
    canvas[x : x + width, y : y + height] = picture
    return canvas.transpose((1, 0, 2))
