"""MiniHack, version 4: where the agent has been, which way to go next, the way to the stairs.

Steps that answer a question of the game are left out of all of it. In Boxoban only the four straight ways count.
"""

from itertools import pairwise

SIDES = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
STRAIGHT = ("north", "east", "south", "west")
OFFSETS = {
    "north": (0, -1),
    "northeast": (1, -1),
    "east": (1, 0),
    "southeast": (1, 1),
    "south": (0, 1),
    "southwest": (-1, 1),
    "west": (-1, 0),
    "northwest": (-1, -1),
}
STAIRS = ("stairs up", "stairs down", "ladder up", "ladder down")
DOWN = ("stairs down", "ladder down")
DOORS = ("doorway", "open door", "closed door")
DEADLY = ("lava", "water", "deep water", "trap")
DOORS_TOLD, LOGGED = 4, 8


def observe(state, history):
    if state["prompt"]:
        return dict.fromkeys(("map_analysis", "actions", "warnings", "tracker", "mandatory", "stairs", "doors"), "")
    return {
        "map_analysis": map_analysis(state, history),
        "actions": ", ".join(step["action"] for step in history["steps"]),
        "warnings": "\n".join(oscillation(state, history) + repetition(state, history)),
        "tracker": tracker(state, history),
        "mandatory": mandatory(state, history),
        "stairs": stairs(state, history),
        "doors": doors(state),
    }


def auto_files(state, history, files):
    """One line for each step of which actions_log.txt got none; the first line remembers how that file ended."""
    last_line = "# " + (files["actions_log.txt"].splitlines() or ["(nothing)"])[-1]
    before = files["auto_log.txt"].splitlines()
    lines = before[1:]
    last = history["last"]
    if last and before and before[0] == last_line:
        said = state["message"].splitlines()
        told = f" -> {said[0][:80]}" if said else ""
        lines.append(f"Step {last['step']}: {last['action']}{told}")
    return {"auto_log.txt": "\n".join([last_line, *lines[-LOGGED:]])}


def repair(action):
    """`go north` is north, `eat d` is eat; `far east` is one command."""
    words = action.split()
    while len(words) > 1 and words[0].lower() in ("go", "move", "walk", "step", "head", "to", "the"):
        words = words[1:]
    kept = words[:2] if words and words[0].lower() == "far" else words[:1]
    return " ".join(kept) or action


# What was done


def deeds(history):
    """The steps that were moves of the game, not answers to it; oldest first."""
    return [step for step in history["steps"] if not step["state"]["prompt"]]


def bare(action):
    return action.removeprefix("far ")


def oscillation(state, history):
    ways = [bare(step["action"]) for step in deeds(history)[-6:]]
    turned = [b for a, b in pairwise(ways) if a in SIDES and b == opposite(a)]
    if len(turned) < 2:
        return []
    instead = alternatives(state, history, (turned[-1], opposite(turned[-1])))
    return [f"You go back and forth between {opposite(turned[-1])} and {turned[-1]}. {instead}"]


def repetition(state, history):
    """The same action three times; a walk that gets on is none."""
    last = deeds(history)[-3:]
    if len(last) < 3 or len({step["action"] for step in last}) > 1:
        return []
    places = [step["state"]["position"] for step in last] + [state["position"]]
    action = last[0]["action"]
    if bare(action) in SIDES and len({str(place) for place in places}) == 4:
        return []
    return [f"{action} three times in a row got you nowhere. {alternatives(state, history, (bare(action),))}"]


def alternatives(state, history, tired):
    others = [side for side in free(state, history) if side not in tired]
    return f"Try {', '.join(others)}." if others else "No other way is open here: look for doors, or search."


# Where the agent has been


def tracker(state, history):
    """Neighbouring squares not stood on yet, or the least visited one, and whether the agent is stuck."""
    new, known = fresh(state, history), free(state, history)
    lines = [f"You are at {at(state)}, for the {ordinal(visits(state, history, (0, 0)))} time."]
    if new:
        lines.append(f"Not visited yet: {', '.join(new)}.")
    elif known:
        lines.append(f"All free squares around are visited; least often: {least_visited(state, history)}.")
    tried = vain(state, history)
    failed = [side for side in SIDES if side in tried]
    if failed:
        lines.append(f"Did not move you from here: {', '.join(failed)}.")
    recent = [str(step["state"]["position"]) for step in deeds(history)] + [str(state["position"])]
    if len(recent) >= 6 and len(set(recent[-6:])) <= 2:
        lines.append("CRITICAL: in the last 6 steps you stood on two squares at most.")
    elif len(recent) >= 10 and len(set(recent[-10:])) <= 3:
        lines.append("STUCK: in the last 10 steps you stood on three squares at most.")
    return " ".join(lines)


def mandatory(state, history):
    """After four visits an unvisited neighbour, after five the least visited; not in a fight or a puzzle."""
    count = visits(state, history, (0, 0))
    if count < 4 or boxoban(state, history) or named(state["adjacent"], ("monster",)):
        return ""
    new = fresh(state, history)
    if new:
        return f"MANDATORY: go {new[0]}; you have been here {count} times and not there."
    side = least_visited(state, history) if count >= 5 else ""
    return f"MANDATORY: go {side}; of the free squares around it is the least visited." if side else ""


def visits(state, history, offset):
    """How often a square was stood on, without the steps on which the game was only asking."""
    x, y = state["position"][-2] + offset[0], state["position"][-1] + offset[1]
    asked = [s for s in history["steps"] if s["state"]["prompt"] and s["state"]["position"][-2:] == [x, y]]
    return max(0, history["visits"].get(f"{x},{y}", 0) - len(asked))


def fresh(state, history):
    return [side for side in free(state, history) if not visits(state, history, OFFSETS[side])]


def least_visited(state, history):
    """The free side that was visited least, the first in compass order of several; "" if none is free."""
    sides = free(state, history)
    counts = [visits(state, history, OFFSETS[side]) for side in sides]
    return sides[counts.index(min(counts))] if sides else ""


def vain(state, history):
    """Directions that were tried since the agent last moved."""
    sides = set()
    for step in reversed(history["steps"]):
        if step["state"]["position"] != state["position"]:
            break
        if not step["state"]["prompt"] and bare(step["action"]) in SIDES:
            sides.add(bare(step["action"]))
    return sides


def free(state, history):
    """Sides that a step can go to and that were not tried in vain; not diagonally through an open door."""
    around, tried = state["adjacent"], vain(state, history)
    straight_only = state["here"] == "open door" or boxoban(state, history)
    sides = [side for side in SIDES if around[side]["passable"] and side not in tried]
    diagonal = [] if straight_only else [side for side in sides if around[side]["kind"] != "open door"]
    return [side for side in sides if side in STRAIGHT or side in diagonal]


def boxoban(state, history):
    """Whether this is the puzzle: by the task where the game tells it, else by its walls of iron bars."""
    if "task" in state:
        return state["task"].startswith("boxoban")
    seen = [state, *[step["state"] for step in history["steps"]]]
    return any(near["kind"] == "iron bars" for past in seen for near in past["adjacent"].values())


# Where to go


def stairs(state, history):
    """The way to stairs down: underfoot, beside, or in sight, with a detour where lava lies."""
    if state["here"] in DOWN:
        return "You stand on the stairs down. Commit ACTION down."
    open_sides = free(state, history)
    beside = [side for side in open_sides if state["adjacent"][side]["kind"] in DOWN]
    if beside:
        return f"THE STAIRS DOWN ARE NEXT TO YOU. Commit ACTION {beside[0]}."
    targets = [s for s in state["stairs"] if s["kind"] in DOWN]
    if not targets:
        return ""
    target = min(targets, key=lambda s: distance(state, s["position"]))
    side = bearing(state, target["position"])
    told = f"Stairs down: {way(state, target['position'])}."
    ahead = [side, turned(side, -1), turned(side, 1)]
    if sum(1 for near in ahead if state["adjacent"][near]["kind"] == "lava") >= 2:
        return f"{told} {detour(state, history, side)}"
    ways = [near for near in ahead if near in open_sides]
    return f"{told} {'Free that way: ' + ', '.join(ways) if ways else 'No square that way is free: go round'}."


def detour(state, history, side):
    """Along the lava, on the side that was visited less."""
    across = [near for near in (turned(side, -2), turned(side, 2)) if near in free(state, history)]
    if not across:
        return "Lava lies between: freeze or bridge it, or go back and round."
    best = min(across, key=lambda near: visits(state, history, OFFSETS[near]))
    return f"Lava lies between: go {best} along it, and keep to that until a way opens."


def doors(state):
    """The nearest doors on the map, under nobody's feet."""
    here = state["position"][-2:]
    known = [door for door in state["doors"] if door["position"] != here]
    nearest = sorted(known, key=lambda door: distance(state, door["position"]))[:DOORS_TOLD]
    return "; ".join(f"{door['kind']} {way(state, door['position'])}" for door in nearest)


def map_analysis(state, history):
    """The squares around, sorted by what they mean for the next step."""
    around = state["adjacent"]
    sides = STRAIGHT if boxoban(state, history) else SIDES
    open_sides = [side for side in free(state, history) if side in sides]
    groups = [
        ("Free", open_sides),
        ("Blocked", [side for side in sides if side not in open_sides]),
        ("Doors", named(around, DOORS)),
        ("Monsters", named(around, ("monster",))),
        ("Pets", named(around, ("pet",))),
        ("Boulders, pushed by moving into them", named(around, ("boulder",))),
        ("Danger", named(around, DEADLY)),
        ("Stairs", named(around, STAIRS)),
    ]
    lines = [f"{title}: {', '.join(told)}" for title, told in groups if told]
    return "\n".join(lines + ([f"You stand on: {state['here']}"] if state["here"] else []))


# Words and directions


def named(around, kinds):
    return [f"{around[side]['name']} {side}" for side in SIDES if around[side]["kind"] in kinds]


def at(state):
    return ",".join(str(part) for part in state["position"])


def ordinal(number):
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def turned(side, eighths):
    return SIDES[(SIDES.index(side) + eighths) % 8]


def opposite(side):
    return turned(side, 4)


def offset(state, target):
    x, y = state["position"][-2:]
    return target[0] - x, target[1] - y


def distance(state, target):
    dx, dy = offset(state, target)
    return max(abs(dx), abs(dy))


def way(state, target):
    """`5 steps southeast`, as the crow flies."""
    steps = distance(state, target)
    return f"{steps} step{'s' if steps > 1 else ''} {bearing(state, target)}"


def bearing(state, target):
    """The nearest of the eight directions."""
    dx, dy = offset(state, target)
    north_south = "north" if dy < 0 else "south"
    east_west = "west" if dx < 0 else "east"
    if abs(dx) > 2 * abs(dy):
        return east_west
    return north_south if abs(dy) > 2 * abs(dx) else north_south + east_west
