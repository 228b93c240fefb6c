"""What the player can see, as facts: JSON values only."""

from __future__ import annotations

from typing import Any

from .simulator import VIEW, Simulator

EDGE = "edge of the world"
VITALS = ("health", "food", "drink", "energy")


def compass(dx: int, dy: int) -> str:
    """One of eight directions for an offset of `dx` squares east and `dy` south; not for (0, 0)."""
    north_south = {-1: "north", 0: "", 1: "south"}[(dy > 0) - (dy < 0)]
    east_west = {-1: "west", 0: "", 1: "east"}[(dx > 0) - (dx < 0)]
    return "-".join(filter(None, (north_south, east_west)))


def _offsets() -> list[tuple[int, str, int, int]]:
    """Squares in view as (distance, direction, dx, dy): nearest first, then from north-west to south-east."""
    east, south = VIEW[0] // 2, VIEW[1] // 2
    squares = [(dx, dy) for dy in range(-south, south + 1) for dx in range(-east, east + 1)]
    rest = [(abs(dx) + abs(dy), compass(dx, dy), dx, dy) for dx, dy in squares if (dx, dy) != (0, 0)]
    return sorted(rest, key=lambda square: square[0])


_OFFSETS = _offsets()


def thing_at(world: Any, x: int, y: int) -> str | None:
    """Name of the object on a square, else of its material; None outside the world."""
    material, thing = world[x, y]
    return type(thing).__name__.lower() if thing else material


def nearby(world: Any, x: int, y: int) -> list[dict[str, Any]]:
    """The nearest instance of each kind of thing in view, nearest kinds first."""
    found: dict[str, dict[str, Any]] = {}
    for distance, direction, dx, dy in _OFFSETS:
        name = thing_at(world, x + dx, y + dy)
        if name and name not in found:
            found[name] = {"name": name, "distance": distance, "direction": direction, "dx": dx, "dy": dy}
    return list(found.values())


def facts(simulator: Simulator, step: int, position: bool) -> dict[str, Any]:
    """The state of the game as far as the text shows it, plus step number and achievements."""
    player, world = simulator.player, simulator.world
    x, y = player.pos.tolist()
    start_x, start_y = simulator.start
    dx, dy = player.facing
    items = player.inventory
    state: dict[str, Any] = {"position": [x - start_x, y - start_y]} if position else {}
    return state | {
        "facing": {"direction": compass(dx, dy), "name": thing_at(world, x + dx, y + dy) or EDGE},
        "nearby": nearby(world, x, y),
        "status": {name: items[name] for name in VITALS},
        "inventory": {name: count for name, count in items.items() if count and name not in VITALS},
        "achievements": simulator.unlocked(),
        "sleeping": bool(player.sleeping),
        "dead": player.health <= 0,
        "step": step,
    }
