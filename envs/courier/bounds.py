"""Floor and ceiling of Courier: what doing nothing reaches, and what seeing everything reaches."""

from __future__ import annotations

from collections.abc import Callable

from .env import CourierEnv
from .tasks import setting
from .world import Place, World


def floor(task: str, seed: int) -> float:
    """Progress of a courier who only waits."""
    return _play(task, seed, lambda world: "wait")


def ceiling(task: str, seed: int) -> float:
    """Progress of a courier who sees all rooms and parcels and always goes the shortest way."""
    return _play(task, seed, omniscient)


def omniscient(world: World) -> str:
    """The next action of a courier who sees everything."""
    order = world.order
    if order is None:
        return "wait"
    place = world.parcels[order.parcel]
    if place is None:
        room = next(place for place, name in world.rooms.items() if name == order.room)
        return toward(world.position, room) or "deliver"
    return toward(world.position, place) or "take"


def toward(here: Place, there: Place) -> str | None:
    """The first step of a shortest way, along x before y; None when already there."""
    if here[0] != there[0]:
        return "east" if here[0] < there[0] else "west"
    if here[1] != there[1]:
        return "north" if here[1] < there[1] else "south"
    return None


def _play(task: str, seed: int, choose: Callable[[World], str]) -> float:
    env = CourierEnv(setting(task, {}))
    env.reset(seed=seed)
    over = False
    progress = 0.0
    while not over:
        assert env.world is not None
        _, _, terminated, truncated, info = env.step(choose(env.world))
        over = terminated or truncated
        progress = info["progress"]
    return progress
