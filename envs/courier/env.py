"""`CourierEnv`: the world of Courier as an environment of AutoMem."""

from __future__ import annotations

from typing import Any

from automem.env import ActionSpace, Env, TextSpace

from . import text
from .tasks import CourierTask
from .world import MOVES, World

ACTIONS = (*MOVES, "take", "deliver", "wait")


class CourierEnv(Env):
    """Bring parcels to rooms, one order at a time; `progress` is deliveries done / deliveries possible.

    The reward is 1 for each delivery. The episode terminates when all orders are done and is truncated at
    `max_steps`. `world` is the game's inside, for bounds and tests; an agent sees the text alone.
    """

    actions = ACTIONS
    default_action = "wait"

    def __init__(self, task: CourierTask) -> None:
        self.task = task
        self.instructions = text.instructions(task)
        self.max_steps = task.horizon
        self.action_space = ActionSpace(ACTIONS)
        self.observation_space = TextSpace()
        self.world: World | None = None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the game of `seed`; without one, of a number drawn from `np_random`."""
        super().reset(seed=seed)
        game = seed if seed is not None else int(self.np_random.integers(2**31))
        self.world = World(self.task, game)
        self._steps = 0
        return text.observation(self.world), _info(self.world)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do `action`, one of `actions`, then let the others act.

        Raises:
            ValueError: no such action.
        """
        if action not in ACTIONS:
            raise ValueError(f"courier has no action {action!r}; actions: {', '.join(ACTIONS)}")
        assert self.world is not None, "reset() comes before step()"
        before = self.world.deliveries
        self.world.act(action)
        self.world.pass_time()
        self._steps += 1
        terminated = self.world.order is None
        truncated = not terminated and self._steps >= self.max_steps
        reward = float(self.world.deliveries - before)
        return text.observation(self.world), reward, terminated, truncated, _info(self.world)


def _info(world: World) -> dict[str, Any]:
    """`progress` and `state`; `state` says what the text says, and how many deliveries are done."""
    order, news = world.order, world.news
    state = {
        "position": list(world.position),
        "room": world.room,
        "grid": [world.task.width, world.task.height],
        "carrying": world.carrying,
        "order": {"parcel": order.parcel, "room": order.room} if order else None,
        "parcels_here": world.here(),
        "news": {"parcel": news.parcel, "position": list(news.place)} if news else None,
        "deliveries": world.deliveries,
    }
    return {"progress": world.deliveries / len(world.orders), "state": state}
