"""`scripted:crafter`: plays Crafter up to stone tools, with a map of what it has seen in memory.

LOG looks before it writes: now and then it searches for the kinds of thing in view, writes down those that
are not known to be near (`tree at 4,-2`), and strikes out places where the thing is no longer
(`no tree at 4,-2`). PLAN does what the square in front allows; else it walks to the next thing it needs: in
view, or at the newest place in memory, or to wherever the step number sends it.
"""

from __future__ import annotations

import re

from automem.grammar import Operation
from automem.models.scripted.base import Prompt, pick
from automem.models.scripted.crafter_sight import STEPS, WALKABLE, Place, Sight, read_sight

HOSTILE = ("zombie", "skeleton")
SHOTS = ("arrow", "skeleton")
#: Kinds worth a line in memory.
NOTED = ("water", "table", "furnace", "iron", "coal", "diamond", "cow", "tree", "stone")
#: Material -> the tool that it takes.
TOOLS = {
    "tree": None,
    "stone": "wood pickaxe",
    "coal": "wood pickaxe",
    "iron": "stone pickaxe",
    "diamond": "iron pickaxe",
}
#: What to make at a table, best first, with its cost.
RECIPES = {
    "wood pickaxe": {"wood": 1},
    "stone pickaxe": {"wood": 1, "stone": 1},
    "iron pickaxe": {"wood": 1, "coal": 1, "iron": 1},
    "wood sword": {"wood": 1},
    "stone sword": {"wood": 1, "stone": 1},
    "iron sword": {"wood": 1, "coal": 1, "iron": 1},
}
MOST = 9
#: How much of a material is carried before it is enough.
ENOUGH = {
    "tree": ("wood", 5),
    "stone": ("stone", 7),
    "coal": ("coal", 2),
    "iron": ("iron", 2),
    "diamond": ("diamond", 1),
}

#: Steps between two looks at memory in LOG, and squares within which a kind counts as known.
LOOK_EVERY = 3
KNOWN_WITHIN = 6
#: Steps for which a way round an obstacle, or a direction of exploring, is kept.
DETOUR, COURSE = 16, 32

_NOTE = re.compile(r"\b(no )?(\w+) at (-?\d+),(-?\d+)")


class CrafterPolicy:
    """Gathers, crafts, drinks, eats and naps; finds again what it has written down."""

    def reply(self, prompt: Prompt) -> list[Operation]:
        """Notes and DONE in LOG; in PLAN and GAMEPLAY a SEARCH where one can help, then an ACTION."""
        sight = read_sight(prompt.observation, prompt.request.step)
        if prompt.phase == "log":
            return _log(prompt, sight)
        if sight is None:
            return [Operation("ACTION", (prompt.default_action,))]
        action = _at_hand(sight)
        if action is None:
            wanted = _wanted(sight)
            action = _in_view(sight, wanted)
            if action is None and not prompt.asked:
                searches = _searches(prompt, sight, wanted[:2])
                if searches:
                    return searches
            action = action or _remembered(prompt, sight, wanted) or _explore(sight)
        return [Operation("ACTION", (action,))]


# What the square in front allows


def _at_hand(sight: Sight) -> str | None:
    if sight.asleep:
        return "Sleep"
    for rule in (_fight, _avoid_lava, _take_cover, _shelter, _consume, _craft, _nap, _plant, _place, _gather):
        action = rule(sight)
        if action:
            return action
    return None


def _fight(sight: Sight) -> str | None:
    direction = sight.beside(*HOSTILE)
    if direction is None:
        return None
    return "Do" if sight.facing == direction else _move(direction)


def _avoid_lava(sight: Sight) -> str | None:
    """Beside lava only the square ahead is known not to be lava too."""
    direction = sight.beside("lava")
    if direction is None:
        return None
    if sight.ahead in WALKABLE:
        return _move(sight.facing)
    if sight.ahead == "lava" and sight.has("stone"):
        return "Place Stone"
    return _clear(sight) or _move(_opposite(direction))


def _take_cover(sight: Sight) -> str | None:
    """Out of the line of fire when hurt."""
    if sight.status["health"] > 5 or sight.distance(*SHOTS) > 5:
        return None
    shot = min((sight.things[kind] for kind in SHOTS if kind in sight.things), key=lambda t: t.distance)
    away = [_opposite(part) for part in shot.direction.split("-")]
    sides = [side for side in (*away, *_sides(away[0])) if not sight.blocked(side)]
    return _move(sides[0]) if sides else None


def _shelter(sight: Sight) -> str | None:
    """By night dig straight into rock, wall up the way in, and sleep."""
    rock = sight.beside("stone")
    ready = sight.dark and sight.has("wood pickaxe") and sight.has("stone", 2)
    if not ready or rock is None or sight.status["drink"] <= 1:
        return None
    if sight.distance("grass", "sand", "water") <= 2:
        if sight.ahead == "path":
            return _move(sight.facing)
        return "Do" if sight.ahead == "stone" else _move(rock)
    if sight.step % DETOUR == 0:
        return _move(_opposite(sight.facing))
    if sight.ahead in WALKABLE:
        return "Place Stone"
    return "Sleep" if sight.status["energy"] <= 6 and sight.distance(*HOSTILE, "arrow") > 4 else "Noop"


def _consume(sight: Sight) -> str | None:
    thirsty = sight.ahead == "water" and sight.status["drink"] < MOST
    hungry = sight.ahead == "cow" and sight.status["food"] < MOST
    return "Do" if thirsty or hungry else None


def _craft(sight: Sight) -> str | None:
    if not sight.near("table"):
        return None
    for item, cost in RECIPES.items():
        possible = all(sight.has(part, count) for part, count in cost.items())
        if possible and not sight.has(item) and ("iron" not in cost or sight.near("furnace")):
            return f"Make {item.title()}"
    return None


def _nap(sight: Sight) -> str | None:
    """Sleep early and by day, when nothing that bites is in view."""
    energy = sight.status["energy"]
    first = energy < MOST and 30 < sight.step < 140
    if sight.distance(*HOSTILE, "arrow") < 99 or sight.status["health"] <= 4:
        return None
    return "Sleep" if energy <= 2 or (not sight.dark and (first or energy <= 5)) else None


def _plant(sight: Sight) -> str | None:
    if sight.ahead != "grass":
        return None
    if sight.has("sapling"):
        return "Place Plant"
    return "Do" if sight.step < 150 and sight.step % 2 and "plant" not in sight.things else None


def _place(sight: Sight) -> str | None:
    if sight.ahead not in WALKABLE:
        return None
    if _table_due(sight):
        return "Place Table"
    if sight.near("table") and sight.has("stone", 5) and "furnace" not in sight.things:
        return "Place Furnace"
    if sight.has("stone", 3) and sight.chance(40):
        return "Place Stone"
    return None


def _table_due(sight: Sight) -> bool:
    """Whether the bag holds enough for a new table and what is to be made at it."""
    if "table" in sight.things:
        return False
    if not sight.has("wood pickaxe"):
        return sight.has("wood", 4)
    if not sight.has("stone pickaxe"):
        return sight.has("wood", 4) and sight.has("stone", 2)
    ready = sight.has("iron") and sight.has("coal") and not sight.has("iron pickaxe")
    return ready and sight.has("wood", 3) and sight.has("stone", 5)


def _gather(sight: Sight) -> str | None:
    item, enough = ENOUGH.get(sight.ahead, ("", 0))
    wanted = item and not sight.has(item, enough)
    return _clear(sight) if wanted else None


def _clear(sight: Sight) -> str | None:
    """Take away what is ahead, where the tool for it is there."""
    if sight.ahead not in TOOLS:
        return None
    tool = TOOLS[sight.ahead]
    return "Do" if tool is None or sight.has(tool) else None


# What to walk to


def _wanted(sight: Sight) -> list[str]:
    """Kinds of thing to walk to, most urgent first."""
    wanted = []
    if sight.status["drink"] <= 6:
        wanted.append("water")
    if sight.status["food"] <= 5:
        wanted.append("cow")
    if sight.dark and sight.has("wood pickaxe"):
        wanted.append("stone")
    if _benefits_from_table(sight):
        wanted.append("table")
    for kind in ("diamond", "iron", "coal", "tree", "stone"):
        item, enough = ENOUGH[kind]
        tool = TOOLS[kind]
        if not sight.has(item, enough) and (tool is None or sight.has(tool)):
            wanted.append(kind)
    return wanted


def _benefits_from_table(sight: Sight) -> bool:
    for item in ("wood pickaxe", "wood sword", "stone pickaxe", "stone sword"):
        if not sight.has(item) and all(sight.has(part, count) for part, count in RECIPES[item].items()):
            return True
    return False


def _in_view(sight: Sight, wanted: list[str]) -> str | None:
    """A step towards the first of `wanted` in view, or to a drink or a meal that lies on the way."""
    close = {"water": sight.status["drink"] < 8, "cow": sight.status["food"] < 7}
    handy = [kind for kind, needed in close.items() if needed and sight.distance(kind) <= 4]
    if sight.chance(5, DETOUR):
        return None
    kind = next((kind for kind in (*handy, *wanted) if kind in sight.things), None)
    return _toward(sight, sight.things[kind].direction.split("-")) if kind else None


def _toward(sight: Sight, directions: list[str]) -> str:
    """A step in one of `directions`; where they are blocked, through the obstacle or round it."""
    if pick(2, sight.step // DETOUR) and len(directions) > 1:
        directions = directions[::-1]
    for direction in directions:
        if not sight.blocked(direction):
            return _move(direction)
    if sight.facing not in directions:
        return _move(directions[0])
    if sight.ahead == "cow" or _clear(sight):
        return "Do"
    if sight.ahead == "water" and sight.has("stone"):
        return "Place Stone"
    sides = _sides(sight.facing, turned=pick(2, 1, sight.step // DETOUR) == 1)
    return _move(next((side for side in sides if not sight.blocked(side)), _opposite(sight.facing)))


def _explore(sight: Sight) -> str:
    """A course kept for a while, turned back at the rim of the map."""
    course = tuple(STEPS)[pick(4, 2, sight.step // COURSE)]
    if sight.place:
        dx, dy = STEPS[course]
        if sight.place[0] * dx + sight.place[1] * dy > 24:
            course = _opposite(course)
    return _toward(sight, [course])


def _move(direction: str) -> str:
    return f"Move {direction.title()}"


def _sides(direction: str, turned: bool = False) -> tuple[str, ...]:
    """The two directions across, in an order that can be turned."""
    sides = ("west", "east") if direction in ("north", "south") else ("north", "south")
    return sides[::-1] if turned else sides


def _opposite(direction: str) -> str:
    return {"north": "south", "south": "north", "west": "east", "east": "west"}[direction]


# Memory


def _map_file(prompt: Prompt) -> tuple[str, str] | None:
    """Name and kind of the file for places: one called a map, else the first log or table."""
    usable = [file for file in prompt.files if file.kind in ("log", "table")]
    maps = [file for file in usable if "map" in file.name]
    found = next(iter(maps or usable), None)
    return (found.name, found.kind) if found else None


def _searches(prompt: Prompt, sight: Sight, kinds: list[str]) -> list[Operation]:
    file = _map_file(prompt)
    if file is None or sight.place is None or "SEARCH" not in prompt.offered:
        return []
    return [Operation("SEARCH", (file[0], f"{kind} at")) for kind in kinds if kind in NOTED]


def _known(prompt: Prompt) -> dict[str, list[Place]]:
    """Places by kind as the results of this conversation tell them, oldest first, without the struck out."""
    known: dict[str, dict[Place, None]] = {}
    for match in _NOTE.finditer("\n".join(prompt.results)):
        places = known.setdefault(match[2], {})
        place = (int(match[3]), int(match[4]))
        places.pop(place, None)
        if not match[1]:
            places[place] = None
    return {kind: list(places) for kind, places in known.items()}


def _remembered(prompt: Prompt, sight: Sight, wanted: list[str]) -> str | None:
    """A step towards the newest remembered place of the first wanted kind that has one."""
    if sight.place is None or sight.chance(5, DETOUR):
        return None
    known = _known(prompt)
    x, y = sight.place
    for kind in wanted:
        for place in reversed(known.get(kind, [])):
            dx, dy = place[0] - x, place[1] - y
            if not _seen_from((dx, dy)):
                return _toward(sight, _directions(dx, dy))
    return None


def _seen_from(offset: Place) -> bool:
    return abs(offset[0]) <= 4 and abs(offset[1]) <= 3


def _directions(dx: int, dy: int) -> list[str]:
    """Ways that lead nearer, the longer side first."""
    ways = [(abs(dx), "east" if dx > 0 else "west"), (abs(dy), "south" if dy > 0 else "north")]
    return [name for length, name in sorted(ways, reverse=True) if length]


def _log(prompt: Prompt, sight: Sight | None) -> list[Operation]:
    done = [Operation("DONE", ())]
    file = _map_file(prompt)
    if sight is None or sight.place is None or file is None or sight.step % LOOK_EVERY:
        return done
    x, y = sight.place
    seen = {kind: sight.things[kind].offset for kind in NOTED if kind in sight.things}
    sure = {kind: (x + offset[0], y + offset[1]) for kind, offset in seen.items() if offset}
    if not prompt.asked:
        missing = [kind for kind in _wanted(sight) if kind not in sight.things]
        searches = _searches(prompt, sight, [*sure, *missing[:2]])
        if searches:
            return searches
    known = _known(prompt)
    notes = [(place, f"{kind} at") for kind, place in sure.items() if not _familiar(place, known.get(kind, []))]
    for kind, places in known.items():
        if kind not in sight.things:
            notes += [(place, f"no {kind} at") for place in places if _seen_from((place[0] - x, place[1] - y))]
    writes = (_write(prompt, file, place, text) for place, text in notes)
    return [operation for operation in writes if operation] + done


def _familiar(place: Place, known: list[Place]) -> bool:
    return any(abs(place[0] - x) + abs(place[1] - y) <= KNOWN_WITHIN for x, y in known)


def _write(prompt: Prompt, file: tuple[str, str], place: Place, text: str) -> Operation | None:
    name, kind = file
    key = f"{place[0]},{place[1]}"
    if kind == "table" and "UPSERT" in prompt.offered:
        return Operation("UPSERT", (name, key, f"{text} {key}"))
    return Operation("APPEND", (name, f"{text} {key}")) if kind == "log" and "APPEND" in prompt.offered else None
