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


class Scene:
    """State and history, and what several blocks need of them."""

    def __init__(self, state, history):
        self.state = state
        self.here = state["position"][-2:]
        self.around = state["adjacent"]
        self.visited = history["visits"]
        self.steps = history["steps"]
        #: The steps that were moves of the game, not answers to it; oldest first.
        self.deeds = [step for step in self.steps if not step["state"]["prompt"]]
        self.puzzle = boxoban(state)
        self.tried = vain(state, history)
        self.free = free(self)
        self.counts = {side: visits(self, OFFSETS[side]) for side in self.free}
        self.count = visits(self, (0, 0))


def observe(state, history):
    if state["prompt"]:
        return dict.fromkeys(("map_analysis", "actions", "warnings", "tracker", "mandatory", "stairs", "doors"), "")
    scene = Scene(state, history)
    return {
        "map_analysis": map_analysis(scene),
        "actions": ", ".join(step["action"] for step in history["steps"]),
        "warnings": "\n".join(oscillation(scene) + repetition(scene)),
        "tracker": tracker(scene),
        "mandatory": mandatory(scene),
        "stairs": stairs(scene),
        "doors": doors(scene),
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


def bare(action):
    return action.removeprefix("far ")


def oscillation(scene):
    ways = [bare(step["action"]) for step in scene.deeds[-6:]]
    backs = [way for before, way in pairwise(ways) if before in SIDES and way == opposite(before)]
    if len(backs) < 2:
        return []
    pair = (opposite(backs[-1]), backs[-1])
    return [f"You go back and forth between {pair[0]} and {pair[1]}. {alternatives(scene, pair)}"]


def repetition(scene):
    """The same action three times; a walk that gets on is none."""
    last = scene.deeds[-3:]
    if len(last) < 3 or len({step["action"] for step in last}) > 1:
        return []
    places = {str(step["state"]["position"]) for step in last} | {str(scene.state["position"])}
    action = last[0]["action"]
    if bare(action) in SIDES and len(places) == 4:
        return []
    return [f"{action} three times in a row got you nowhere. {alternatives(scene, (bare(action),))}"]


def alternatives(scene, tired):
    others = [side for side in scene.free if side not in tired]
    return f"Try {', '.join(others)}." if others else "No other way is open here: look for doors, or search."


# Where the agent has been


def tracker(scene):
    """Neighbouring squares not stood on yet, or the least visited one, and whether the agent is stuck."""
    new = fresh(scene)
    lines = [f"You are at {scene.here[0]},{scene.here[1]}, for the {ordinal(scene.count)} time."]
    if new:
        lines.append(f"Not visited yet: {', '.join(new)}.")
    elif scene.free:
        lines.append(f"All free squares around are visited; least often: {least_visited(scene)}.")
    failed = [side for side in SIDES if side in scene.tried]
    if failed:
        lines.append(f"Did not move you from here: {', '.join(failed)}.")
    recent = [str(step["state"]["position"]) for step in scene.deeds] + [str(scene.state["position"])]
    if len(recent) >= 6 and len(set(recent[-6:])) <= 2:
        lines.append("CRITICAL: in the last 6 steps you stood on two squares at most.")
    elif len(recent) >= 10 and len(set(recent[-10:])) <= 3:
        lines.append("STUCK: in the last 10 steps you stood on three squares at most.")
    return " ".join(lines)


def mandatory(scene):
    """After four visits an unvisited neighbour, after five the least visited; not in a fight or a puzzle."""
    if scene.count < 4 or scene.puzzle or named(scene.around, ("monster",)):
        return ""
    new = fresh(scene)
    if new:
        return f"MANDATORY: go {new[0]}; you have been here {scene.count} times and not there."
    side = least_visited(scene) if scene.count >= 5 else ""
    return f"MANDATORY: go {side}; of the free squares around it is the least visited." if side else ""


def visits(scene, offset):
    """How often a square was stood on, without the steps on which the game was only asking."""
    place = [scene.here[0] + offset[0], scene.here[1] + offset[1]]
    asked = [s for s in scene.steps if s["state"]["prompt"] and s["state"]["position"][-2:] == place]
    return max(0, scene.visited.get(f"{place[0]},{place[1]}", 0) - len(asked))


def fresh(scene):
    return [side for side in scene.free if not scene.counts[side]]


def least_visited(scene):
    """The free side that was visited least, the first in compass order of several; "" if none is free."""
    least = min(scene.counts.values()) if scene.counts else 0
    sides = [side for side in scene.free if scene.counts[side] == least]
    return sides[0] if sides else ""


def vain(state, history):
    """Directions that were tried since the agent last moved."""
    sides = set()
    for step in reversed(history["steps"]):
        if step["state"]["position"] != state["position"]:
            break
        if not step["state"]["prompt"] and bare(step["action"]) in SIDES:
            sides.add(bare(step["action"]))
    return sides


def free(scene):
    """Sides that a step can go to and that were not tried in vain; not diagonally through an open door."""
    sides = [side for side in SIDES if scene.around[side]["passable"] and side not in scene.tried]
    if scene.puzzle or scene.state["here"] == "open door":
        return [side for side in sides if side in STRAIGHT]
    return [side for side in sides if side in STRAIGHT or scene.around[side]["kind"] != "open door"]


def boxoban(state):
    """Whether this is the puzzle, which has four ways to go."""
    return state["task"].startswith("boxoban")


# Where to go


def stairs(scene):
    """The way to stairs down: underfoot, beside, or in sight, with a detour where lava lies."""
    if scene.state["here"] in DOWN:
        return "You stand on the stairs down. Commit ACTION down."
    beside = [side for side in scene.free if scene.around[side]["kind"] in DOWN]
    if beside:
        return f"THE STAIRS DOWN ARE NEXT TO YOU. Commit ACTION {beside[0]}."
    targets = [s["position"] for s in scene.state["stairs"] if s["kind"] in DOWN]
    if not targets:
        return ""
    target = min(targets, key=lambda place: distance(scene, place))
    side = bearing(scene, target)
    told = f"Stairs down: {way(scene, target)}."
    ahead = [side, turned(side, -1), turned(side, 1)]
    if sum(1 for near in ahead if scene.around[near]["kind"] == "lava") >= 2:
        return f"{told} {detour(scene, side)}"
    ways = [near for near in ahead if near in scene.free]
    return f"{told} {'Free that way: ' + ', '.join(ways) if ways else 'No square that way is free: go round'}."


def detour(scene, side):
    """Along the lava, on the side that was visited less."""
    across = [near for near in (turned(side, -2), turned(side, 2)) if near in scene.free]
    if not across:
        return "Lava lies between: freeze or bridge it, or go back and round."
    best = min(across, key=lambda near: scene.counts[near])
    return f"Lava lies between: go {best} along it, and keep to that until a way opens."


def doors(scene):
    """The nearest doors on the map, under nobody's feet."""
    known = [door for door in scene.state["doors"] if door["position"] != scene.here]
    nearest = sorted(known, key=lambda door: distance(scene, door["position"]))[:DOORS_TOLD]
    return "; ".join(f"{door['kind']} {way(scene, door['position'])}" for door in nearest)


def map_analysis(scene):
    """The squares around, sorted by what they mean for the next step."""
    around, sides = scene.around, STRAIGHT if scene.puzzle else SIDES
    groups = [
        ("Free", scene.free),
        ("Blocked", [side for side in sides if side not in scene.free]),
        ("Doors", named(around, DOORS)),
        ("Monsters", named(around, ("monster",))),
        ("Pets", named(around, ("pet",))),
        ("Boulders, pushed by moving into them", named(around, ("boulder",))),
        ("Danger", named(around, DEADLY)),
        ("Stairs", named(around, STAIRS)),
    ]
    lines = [f"{title}: {', '.join(told)}" for title, told in groups if told]
    here = scene.state["here"]
    return "\n".join(lines + ([f"You stand on: {here}"] if here else []))


# Words and directions


def named(around, kinds):
    return [f"{around[side]['name']} {side}" for side in SIDES if around[side]["kind"] in kinds]


def ordinal(number):
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def turned(side, eighths):
    return SIDES[(SIDES.index(side) + eighths) % 8]


def opposite(side):
    return turned(side, 4)


def offset(scene, target):
    return target[0] - scene.here[0], target[1] - scene.here[1]


def distance(scene, target):
    dx, dy = offset(scene, target)
    return max(abs(dx), abs(dy))


def way(scene, target):
    """`5 steps southeast`, as the crow flies."""
    steps = distance(scene, target)
    return f"{steps} step{'s' if steps > 1 else ''} {bearing(scene, target)}"


def bearing(scene, target):
    """The nearest of the eight directions."""
    dx, dy = offset(scene, target)
    north_south = "north" if dy < 0 else "south"
    east_west = "west" if dx < 0 else "east"
    if abs(dx) > 2 * abs(dy):
        return east_west
    return north_south if abs(dy) > 2 * abs(dx) else north_south + east_west
