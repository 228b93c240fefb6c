"""NetHack, version 2: map analysis, stairs first, status and inventory kept as files.

What reaches back further than the last step (tiles explored, last actions) is read from the status file, which
keeps it, so no long history has to be handed over.
"""

import re
from itertools import pairwise

SIDES = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
STAIRS = ("stairs up", "stairs down", "ladder up", "ladder down")
DOWN = ("stairs down", "ladder down")
DOORS = ("doorway", "open door", "closed door")
DEADLY = ("lava", "water", "deep water", "trap")
LAST_ACTIONS = 10
WARNED = "WARNING: "


def observe(state, history):
    return {"map_analysis": map_analysis(state), "stairs": stairs_first(state)}


def auto_files(state, history, files):
    carried = [f"{letter}: {thing}" for letter, thing in state["inventory"].items()]
    return {
        "current_status.txt": status(state, history, files["current_status.txt"]),
        "inventory.txt": "\n".join(carried) or "nothing",
    }


def repair(action):
    """The first word of a combined command (`eat d` -> `eat`); `far east` is one command."""
    words = action.split()
    kept = words[:2] if words and words[0].lower() == "far" else words[:1]
    return " ".join(kept) or action


# The status file


def status(state, history, before):
    """The status, with what the file itself knew of earlier steps."""
    level, x, y = state["position"]
    actions = last_actions(history, before)
    lines = [
        f"Level {level}, position x={x}, y={y}, turn {state['turn']}, step {history['step']}",
        f"HP {state['hp']}/{state['max_hp']}, AC {state['ac']}, experience level {state['xl']}, gold {state['gold']}",
        f"Hunger: {state['hunger']}. Conditions: {', '.join(state['conditions']) or 'none'}. {state['burden']}",
        f"Tiles explored: {explored(state, history, before)}",
        f"Last actions: {', '.join(actions) or 'none'}",
    ]
    return "\n".join(lines + oscillation(state, actions))


def explored(state, history, before):
    """How many places have been stood on: one more when this one is visited for the first time."""
    known = re.search(r"Tiles explored: (\d+)", before)
    key = ",".join(str(part) for part in state["position"])
    return (int(known.group(1)) if known else 0) + (history["visits"].get(key) == 1)


def last_actions(history, before):
    """The latest actions, oldest first: those of the file and the one just done."""
    known = re.search(r"Last actions: (.*)", before)
    actions = known.group(1).split(", ") if known and known.group(1) != "none" else []
    if history["last"]:
        actions.append(history["last"]["action"])
    return actions[-LAST_ACTIONS:]


def oscillation(state, actions):
    """A warning when moves keep undoing each other, with the other ways that are open."""
    ways = [action.removeprefix("far ") for action in actions]
    moves = [way for way in ways if way in SIDES]
    pairs = [(one, other) for one, other in pairwise(ways) if one in SIDES and other in SIDES]
    turned = [other for one, other in pairs if opposite(one) == other]
    if len(moves) < 4 or len(turned) < 3:
        return []
    back_and_forth = (turned[-1], opposite(turned[-1]))
    others = [side for side in free(state) if side not in back_and_forth]
    instead = f"Other ways: {', '.join(others)}." if others else "No other way is open here: search, or try a door."
    return [f"{WARNED}you go back and forth ({' and '.join(back_and_forth)}). {instead}"]


def opposite(side):
    return SIDES[(SIDES.index(side) + 4) % 8]


# The map


def stairs_first(state):
    """What to do about stairs down underfoot or on a neighbouring square."""
    if state["prompt"]:
        return ""
    if state["here"] in DOWN:
        return "YOU STAND ON THE STAIRS DOWN. Commit down now."
    beside = [side for side in free(state) if state["adjacent"][side]["kind"] in DOWN]
    return f"THE STAIRS DOWN ARE ONE STEP {beside[0].upper()}. Go there now: {beside[0]}." if beside else ""


def map_analysis(state):
    """The squares around, sorted by what they mean for the next step, and the way to stairs."""
    around = state["adjacent"]
    open_sides = free(state)
    groups = [
        ("Free", open_sides),
        ("Blocked", [side for side in SIDES if side not in open_sides]),
        ("Doors", named(around, DOORS)),
        ("Monsters", named(around, ("monster",))),
        ("Pets", named(around, ("pet",))),
        ("Danger", named(around, DEADLY)),
        ("Stairs", named(around, STAIRS)),
    ]
    lines = [f"{title}: {', '.join(told)}" for title, told in groups if told]
    if state["here"]:
        lines.append(f"You stand on: {state['here']}")
    lines += [f"{stairs['kind']}: {way(state, stairs['position'])}" for stairs in away(state)]
    return "\n".join(lines)


def free(state):
    """Sides that a step can go to; not diagonally through an open door."""
    around, in_door = state["adjacent"], state["here"] == "open door"
    sides = [side for side in SIDES if around[side]["passable"]]
    straight = ("north", "east", "south", "west")
    return [side for side in sides if side in straight or not (in_door or around[side]["kind"] == "open door")]


def named(around, kinds):
    return [f"{around[side]['name']} {side}" for side in SIDES if around[side]["kind"] in kinds]


def away(state):
    """Stairs down that are known on this level, not under the player."""
    here = state["position"][-2:]
    return [s for s in state["stairs"] if s["kind"] in DOWN and s["position"] != here]


def way(state, target):
    """`5 steps southeast`, as the crow flies."""
    x, y = state["position"][-2:]
    dx, dy = target[0] - x, target[1] - y
    distance = max(abs(dx), abs(dy))
    return f"{distance} step{'s' if distance > 1 else ''} {bearing(dx, dy)}"


def bearing(dx, dy):
    """The nearest of the eight directions."""
    north_south = "north" if dy < 0 else "south"
    east_west = "west" if dx < 0 else "east"
    if abs(dx) > 2 * abs(dy):
        return east_west
    return north_south if abs(dy) > 2 * abs(dx) else north_south + east_west
