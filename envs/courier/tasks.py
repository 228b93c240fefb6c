"""The parameters of a Courier game and the three shipped settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from automem.env import with_options
from automem.errors import UsageError

from .names import PARCELS

#: Parcels that one room holds; it bounds the length of an observation.
SHELF = 6
#: Orders of one game, which are drawn before it begins.
MOST_ORDERS = 100_000


@dataclass(frozen=True)
class CourierTask:
    """One game: sizes in rooms, `horizon` in steps, rates as chances.

    `move_rate` is the chance a step that somebody moves a parcel, `news_rate` the chance that such a move is
    told. One side of the grid is even, so that a closed tour through all rooms exists.
    """

    width: int
    height: int
    horizon: int
    parcels: int
    orders: int
    move_rate: float
    news_rate: float

    def __post_init__(self) -> None:
        rooms = self.width * self.height
        rules = {
            "width and height must be 2 to 9": 2 <= self.width <= 9 and 2 <= self.height <= 9,
            "width or height must be even": rooms % 2 == 0,
            f"parcels must be 2 to {len(PARCELS)}": 2 <= self.parcels <= len(PARCELS),
            f"parcels must be fewer than {SHELF} times the rooms": self.parcels < SHELF * rooms,
            "horizon and orders must be positive": self.horizon > 0 and self.orders > 0,
            f"orders must be at most {MOST_ORDERS}": self.orders <= MOST_ORDERS,
            "move_rate and news_rate must be 0 to 1": 0 <= self.move_rate <= 1 and 0 <= self.news_rate <= 1,
        }
        for rule, kept in rules.items():
            if not kept:
                raise UsageError(f"courier: {rule}", f"given: {self}")


SETTINGS = {
    "small": CourierTask(width=6, height=4, horizon=200, parcels=12, orders=20, move_rate=0.25, news_rate=0.5),
    "long": CourierTask(width=6, height=6, horizon=1_000, parcels=24, orders=90, move_rate=0.3, news_rate=0.5),
    "huge": CourierTask(width=8, height=8, horizon=10_000, parcels=40, orders=760, move_rate=0.3, news_rate=0.5),
}
TASKS = tuple(SETTINGS)


def setting(task: str, options: dict[str, Any]) -> CourierTask:
    """The setting of `task` with `options` in place of its own values.

    Raises:
        UsageError: an option that does not exist, of the wrong type or out of range.
    """
    return with_options("courier", SETTINGS[task], options)
