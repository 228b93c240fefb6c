"""The rules of Courier: rooms, parcels, orders, and the others who move things. No text, no gymnasium."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .names import PARCELS, ROOMS
from .tasks import SHELF, CourierTask

Place = tuple[int, int]

MOVES = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}


@dataclass(frozen=True)
class Order:
    """Bring `parcel` to `room`, both by name."""

    parcel: str
    room: str


@dataclass(frozen=True)
class News:
    """`parcel` has been moved to `place`."""

    parcel: str
    place: Place


class World:
    """One game in progress.

    `rooms` names every place, `parcels` has the place of each parcel (None: carried), `orders` all orders of
    the game. Each stream of chance is drawn the same number of times whatever the courier does, so two
    couriers with one seed meet the same moves.
    """

    def __init__(self, task: CourierTask, seed: int) -> None:
        self.task = task
        places = [(x, y) for y in range(task.height) for x in range(task.width)]
        layout = Random(f"courier/{seed}/layout")
        names = list(ROOMS[: len(places)])
        layout.shuffle(names)
        self.rooms: dict[Place, str] = dict(zip(places, names, strict=True))
        self.parcels: dict[str, Place | None] = {}
        for parcel in PARCELS[: task.parcels]:
            self.put(parcel, layout.choice(places))
        self.position: Place = layout.choice(places)
        self.orders = _draw_orders(Random(f"courier/{seed}/orders"), list(self.parcels), names, task.orders)
        self.deliveries = 0
        self.news: News | None = None
        self.notice: str | None = None
        self._places = places
        self._chance = Random(f"courier/{seed}/moves")

    @property
    def order(self) -> Order | None:
        """The order to fulfil now; None when all are done."""
        return self.orders[self.deliveries] if self.deliveries < len(self.orders) else None

    @property
    def room(self) -> str:
        """The name of the room the courier is in."""
        return self.rooms[self.position]

    @property
    def carrying(self) -> str | None:
        """The parcel carried: never another than the ordered one."""
        order = self.order
        return order.parcel if order and self.parcels[order.parcel] is None else None

    def here(self) -> list[str]:
        """The parcels that lie in the courier's room, always in the same order."""
        return [parcel for parcel, place in self.parcels.items() if place == self.position]

    def put(self, parcel: str, place: Place) -> Place:
        """Lay `parcel` down at `place`, or in the next room (row by row) with space on its shelf."""
        held = list(self.parcels.values())
        places = list(self.rooms)
        start = places.index(place)
        free = next(p for p in places[start:] + places[:start] if held.count(p) < SHELF)
        self.parcels[parcel] = free
        return free

    def act(self, action: str) -> None:
        """Do `action`; one that is impossible changes nothing but `notice`."""
        self.notice = None
        if action in MOVES:
            self._walk(action)
        elif action == "take":
            self._take()
        elif action == "deliver":
            self._deliver()

    def pass_time(self) -> None:
        """Let the others act: with chance `move_rate` a parcel out of sight changes its place."""
        self.news = None
        if self._chance.random() >= self.task.move_rate:
            return
        parcel = self._chance.choice(list(self.parcels))
        place = self._chance.choice(self._places)
        told = self._chance.random() < self.task.news_rate
        if self.parcels[parcel] not in (None, self.position, place):
            moved_to = self.put(parcel, place)
            self.news = News(parcel, moved_to) if told else None

    def _walk(self, direction: str) -> None:
        dx, dy = MOVES[direction]
        there = (self.position[0] + dx, self.position[1] + dy)
        if there in self.rooms:
            self.position = there
        else:
            self.notice = f"There is no way {direction}."

    def _take(self) -> None:
        if self.order is None:
            return
        parcel = self.order.parcel
        if self.carrying:
            self.notice = f"You already carry the {parcel}."
        elif self.parcels[parcel] == self.position:
            self.parcels[parcel] = None
        else:
            self.notice = f"The {parcel} is not here."

    def _deliver(self) -> None:
        if self.order is None:
            return
        if not self.carrying:
            self.notice = "You carry nothing."
        elif self.room == self.order.room:
            self.put(self.order.parcel, self.position)
            self.deliveries += 1
        else:
            self.notice = f"This is not the {self.order.room}."


def _draw_orders(chance: Random, parcels: list[str], rooms: list[str], count: int) -> tuple[Order, ...]:
    """`count` orders; neither parcel nor room comes twice in a row."""
    orders: list[Order] = []
    while len(orders) < count:
        order = Order(chance.choice(parcels), chance.choice(rooms))
        if not orders or (order.parcel != orders[-1].parcel and order.room != orders[-1].room):
            orders.append(order)
    return tuple(orders)
