"""Actions, achievements and the rules text, taken from the tables of the installed library."""

from __future__ import annotations

from typing import Any

from crafter import constants

_COMPASS = {"left": "west", "right": "east", "up": "north", "down": "south"}


def title(name: str) -> str:
    """`make_wood_pickaxe` -> `Make Wood Pickaxe`, `move_left` -> `Move West`."""
    verb, _, rest = name.partition("_")
    words = [verb, *(_COMPASS[rest] if verb == "move" else rest).split("_")]
    return " ".join(words).strip().title()


#: Action name -> the library's name of it, in the library's order.
ACTIONS: dict[str, str] = {title(name): name for name in constants.actions}
NOOP = title("noop")
ACHIEVEMENTS: tuple[str, ...] = tuple(constants.achievements)

_GAME = """\
You play Crafter, a survival game on a map of {area} by {area} squares. \
You see 4 squares to the west and east and 3 to the north and south.
Goal: unlock as many of the {total} achievements as you can before you die or {length} steps have passed. \
Each counts once.

Achievements: {achievements}.

Actions:
- Noop: do nothing.
- Move West, Move East, Move North, Move South: face that way and step there if it is free {walkable}. \
Lava can be entered and kills.
- Do: use the square you face. Trees give wood; stone and coal need a wood pickaxe, iron a stone pickaxe, \
diamond an iron pickaxe; grass gives a sapling {sapling} % of the time; water is drunk; a ripe plant is \
eaten; cows are hit until eaten, zombies and skeletons until they fall.
- Sleep: restores energy when it is below 9; you wake when it is full or you are hurt.
{recipes}
Placing needs a free square in front of you. Near means on one of the eight squares around you.

Health, food, drink and energy go from 0 to 9. Health falls while food, drink or energy is 0, and otherwise \
slowly recovers."""
_POSITION = "\nPositions are x,y from the start (0,0): x grows to the east, y to the south."


def instructions(area: int, length: int, position: bool) -> str:
    """Rules and goal for the system prompt."""
    text = _GAME.format(
        area=area,
        length=length,
        total=len(ACHIEVEMENTS),
        achievements=", ".join(title(name) for name in ACHIEVEMENTS),
        walkable=_either(constants.walkable),
        sapling=round(100 * constants.collect["grass"]["probability"]),
        recipes="\n".join(f"- {', '.join(names)}: {rule}." for rule, names in recipes().items()),
    )
    return text + (_POSITION if position else "")


def recipes() -> dict[str, list[str]]:
    """What placing and making needs -> the actions that need it."""
    grouped: dict[str, list[str]] = {}
    for name, rule in constants.place.items():
        grouped.setdefault(f"{_cost(rule)}, on {_either(rule['where'])}", []).append(title(f"place_{name}"))
    for name, rule in constants.make.items():
        grouped.setdefault(f"{_cost(rule)}, near a {' and a '.join(rule['nearby'])}", []).append(title(f"make_{name}"))
    return grouped


def _cost(rule: dict[str, Any]) -> str:
    return ", ".join(f"{count} {item}" for item, count in rule["uses"].items())


def _either(names: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
