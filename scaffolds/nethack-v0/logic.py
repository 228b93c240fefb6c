"""NetHack, version 0: the map analysis that the published baseline has, and commands cut to their first word."""

SIDES = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
STAIRS = ("stairs up", "stairs down", "ladder up", "ladder down")
DOORS = ("doorway", "open door", "closed door")
DEADLY = ("lava", "water", "deep water", "trap")


def observe(state, history):
    return {"map_analysis": map_analysis(state)}


def repair(action):
    """The first word of a combined command (`eat d` -> `eat`); `far east` is one command."""
    words = action.split()
    kept = words[:2] if words and words[0].lower() == "far" else words[:1]
    return " ".join(kept) or action


def map_analysis(state):
    """The squares around, sorted by what they mean for the next step, and the way to stairs."""
    around = state["adjacent"]
    groups = [
        ("Free", [side for side in SIDES if around[side]["passable"]]),
        ("Blocked", [side for side in SIDES if not around[side]["passable"]]),
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


def named(around, kinds):
    return [f"{around[side]['name']} {side}" for side in SIDES if around[side]["kind"] in kinds]


def away(state):
    """Stairs down that are known on this level, not under the player."""
    here = state["position"][-2:]
    return [s for s in state["stairs"] if s["kind"].endswith("down") and s["position"] != here]


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
