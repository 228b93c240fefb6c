"""Crafter's own dynamics without its two sources of chance: unordered chunks and noise in pictures.

The library keeps the objects of a chunk in a set, ordered by address, and draws the noise of night frames
from the world's generator. Here chunks keep the order of arrival, and nothing is drawn while playing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import crafter
from crafter import constants, engine, objects, worldgen

#: Squares seen east-west and north-south; the library's 9x9 view gives its last two rows to the inventory.
VIEW = (9, 7)
#: Objects move only within this many steps of the player (twice the library's view of 9).
ACTIVE_DISTANCE = 18
CHUNK = (12, 12)
BALANCE_EVERY = 10


class OrderedSet(dict[Any, None]):
    """The part of a set that the world needs, in order of arrival."""

    def add(self, item: Any) -> None:
        """Put `item` at the end."""
        self[item] = None

    def remove(self, item: Any) -> None:
        """Take `item` out; a KeyError if it is not there."""
        del self[item]


class OrderedWorld(engine.World):  # type: ignore[misc]  # the library has no types
    """The library's world with chunks in order of arrival."""

    def reset(self, seed: int | None = None) -> None:
        """Empty the world and seed its generator."""
        super().reset(seed)
        self._chunks: defaultdict[Any, OrderedSet] = defaultdict(OrderedSet)


class Simulator(crafter.Env):  # type: ignore[misc]  # the library has no types
    """World, player and clock of one episode at a time.

    Inherits the balance of creatures and the light of day. The library's constructor is not called: it
    reads every picture, and all else it sets belongs to its own `reset` and `step`.
    """

    def __init__(self, area: int) -> None:
        self._world = OrderedWorld((area, area), constants.materials, CHUNK)
        self._player: Any = None
        self._step = 0

    @property
    def world(self) -> Any:
        """The library's `World`."""
        return self._world

    @property
    def player(self) -> Any:
        """The library's `Player`."""
        return self._player

    @property
    def start(self) -> tuple[int, int]:
        """The square on which every episode starts, the middle of the map."""
        width, height = self._world.area
        return width // 2, height // 2

    def begin(self, seed: int) -> None:
        """Make a new world from `seed` (32 bits) and put the player in its middle."""
        self._step = 0
        self._world.reset(seed)
        self._update_time()
        self._player = objects.Player(self._world, self.start)
        self._world.add(self._player)
        worldgen.generate_world(self._world, self._player)

    def advance(self, action: str) -> None:
        """One step of the world with the player's `action` (the library's name of it)."""
        self._step += 1
        self._update_time()
        self._player.action = action
        present = self._world.objects
        self._player.update()
        x, y = self._player.pos.tolist()
        for thing in present[1:]:
            there_x, there_y = thing.pos.tolist()
            if abs(there_x - x) + abs(there_y - y) < ACTIVE_DISTANCE:
                thing.update()
        if self._step % BALANCE_EVERY == 0:
            for chunk, inside in self._world.chunks.items():
                self._balance_chunk(chunk, inside)

    def unlocked(self) -> list[str]:
        """Achievements of this episode, sorted."""
        return sorted(name for name, count in self._player.achievements.items() if count)
