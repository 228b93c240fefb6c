"""What the courier reads: the rules once, and an observation of at most 60 words at every step."""

from __future__ import annotations

from .tasks import CourierTask
from .world import World

_INSTRUCTIONS = """\
You are a courier in a house of {width} by {height} rooms. You see one room at a time.
A place is x,y. north: y + 1. south: y - 1. east: x + 1. west: x - 1. x is 0 to {last_x}, y is 0 to {last_y}.
The order names a parcel and a room: go to the parcel, take it, go to the room, deliver it. Then the next \
order comes.
Nobody tells where a room is. Rooms never move.
Others move parcels. News tell some of these moves, once each; of the rest you hear nothing.
take: take the ordered parcel if it is here. deliver: hand it over if this is the room. wait: do nothing.
Goal: as many of {orders} deliveries as you can in {horizon} steps."""


def instructions(task: CourierTask) -> str:
    """The rules of `task`, for the system prompt."""
    return _INSTRUCTIONS.format(
        width=task.width,
        height=task.height,
        last_x=task.width - 1,
        last_y=task.height - 1,
        orders=task.orders,
        horizon=task.horizon,
    )


def observation(world: World) -> str:
    """The situation in words; the same situation is always the same text."""
    x, y = world.position
    order = world.order
    lines = [
        f"Room: {world.room} at {x},{y} in a grid of {world.task.width} by {world.task.height}.",
        f"Here: {', '.join(world.here()) or 'nothing'}.",
        f"Carrying: {world.carrying or 'nothing'}.",
        f"Order: {order.parcel} to {order.room}." if order else "Order: none.",
    ]
    if world.news:
        to_x, to_y = world.news.place
        lines.append(f"News: the {world.news.parcel} is now in {to_x},{to_y}.")
    if world.notice:
        lines.append(world.notice)
    return "\n".join(lines)
