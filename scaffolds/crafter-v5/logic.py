"""Crafter, version 5: warnings and the next step of the tech tree, a gate before actions, repair of names.

All of it comes from what the text of the game tells too: view, facing square, status, inventory.
"""

import re
from itertools import pairwise

GROUND = ("grass", "sand", "path")
#: What an action takes from the bag, what must be near, and onto which squares it places.
RECIPES = {
    "Make Wood Pickaxe": ({"wood": 1}, ("table",), ()),
    "Make Stone Pickaxe": ({"wood": 1, "stone": 1}, ("table",), ()),
    "Make Iron Pickaxe": ({"wood": 1, "coal": 1, "iron": 1}, ("table", "furnace"), ()),
    "Make Wood Sword": ({"wood": 1}, ("table",), ()),
    "Make Stone Sword": ({"wood": 1, "stone": 1}, ("table",), ()),
    "Make Iron Sword": ({"wood": 1, "coal": 1, "iron": 1}, ("table", "furnace"), ()),
    "Place Stone": ({"stone": 1}, (), (*GROUND, "water", "lava")),
    "Place Table": ({"wood": 2}, (), GROUND),
    "Place Furnace": ({"stone": 4}, (), GROUND),
    "Place Plant": ({"sapling": 1}, (), ("grass",)),
}
TOOL_FOR = {"stone": "wood_pickaxe", "coal": "wood_pickaxe", "iron": "stone_pickaxe", "diamond": "iron_pickaxe"}
SOURCE = {"wood": "tree", "stone": "stone", "coal": "coal", "iron": "iron", "diamond": "diamond"}
MATERIALS = ("sapling", "wood", "stone", "coal", "iron", "diamond")
CREATURES = ("cow", "zombie", "skeleton")
HOSTILE = ("zombie", "skeleton")
LEFT, RIGHT, UP, DOWN = "Move West", "Move East", "Move North", "Move South"
OPPOSITE = {LEFT: RIGHT, RIGHT: LEFT, UP: DOWN, DOWN: UP}
MOST_NOOPS = 5


def observe(state, history):
    """One text for each thing worth saying; "" where there is nothing to say."""
    deeds = played(state, history)
    return {
        "gained": gained(state, history),
        "failed": failed(deeds),
        "threats": threats(state, history),
        "vitals": vitals(state),
        "repetition": repetition(deeds),
        "pacing": pacing(deeds),
        "idle": idle(deeds),
        "placed": placed(state, deeds),
        "table": table(state),
        "tech_tree": tech_tree(state),
        "easy_wake_up": easy_sleep(state),
        "easy_place_stone": easy_stone(state),
        "easy_place_plant": easy_plant(state),
        "easy_collect_drink": easy_drink(state),
    }


def auto_files(state, history, files):
    """The step of the last gain, kept from step to step in the file itself."""
    step = history["step"]
    known = re.search(r"step (\d+)", files["gains.txt"])
    last = int(known.group(1)) if known else 0
    line = files["gains.txt"].split("\n")[0] or "Last gain: none since step 0."
    if more := differences(state, history, 1):
        last, line = step, f"Last gain: {', '.join(more)} at step {step}."
    since = step - last
    if since >= 50 and not state["sleeping"]:
        line += f"\nNothing gained for {since} steps. Give up what you are trying: go far away, in one direction."
    elif since >= 30 and not state["sleeping"]:
        line += f"\nNothing gained for {since} steps. Try another place or another goal."
    return {"gains.txt": line}


def guard(action, state, history):
    """Why `action` cannot work or is too dangerous now, as far as the text of the game tells."""
    if state["sleeping"]:
        return None
    if action in RECIPES:
        problems = missing(action, state)
        return f"{action} needs {', '.join(problems)}." if problems else None
    if action == "Do":
        return lacks_tool(state)
    if action == "Sleep":
        enemy = nearest(state, HOSTILE, 3)
        return f"a {enemy['name']} is {steps(enemy)}: fight, leave or wall yourself in first." if enemy else None
    if action == "Noop" and noops(history) >= MOST_NOOPS:
        return f"you have done nothing for {noops(history)} steps: choose something that gets you further."
    return None


def repair(action):
    """Names as models write them: other case and separators, bare or diagonal directions."""
    name = " ".join(re.sub(r"[^a-z]+", " ", action.lower()).split())
    way = re.fullmatch(r"(?:(?:move|go|walk|step) )?(?:to )?(?:the )?(north|south|east|west)( ?east| ?west)?", name)
    if way:
        return f"Move {way.group(1).title()}"
    return name.title() if name else action


# What happened


def played(state, history):
    """The steps in view of the history, oldest first: action, state before, state after."""
    steps = history["steps"]
    after = [*[step["state"] for step in steps], state][1:]
    return [{"action": s["action"], "before": s["state"], "after": then} for s, then in zip(steps, after, strict=True)]


def worked(deed):
    """Whether the action did something. Blows and searching grass need several tries, so they count."""
    before, after, action = deed["before"], deed["after"], deed["action"]
    if before["sleeping"] or after["sleeping"]:
        return True
    if action == "Do":
        if before["facing"]["name"] in (*CREATURES, "grass"):
            return True
        drunk = any(after["status"][name] > before["status"][name] for name in ("food", "drink"))
        return drunk or before["inventory"] != after["inventory"]
    if action in OPPOSITE:
        same_place = before.get("position") == after.get("position") and before["nearby"] == after["nearby"]
        return not same_place or before["facing"] != after["facing"]
    return action != "Noop" and before["inventory"] != after["inventory"]


def differences(state, history, sign):
    """What the inventory has more (`sign` 1) or less (-1) of since the last step."""
    if history["last"] is None:
        return []
    old, new = history["last"]["state"]["inventory"], state["inventory"]
    names = sorted(set(old) | set(new))
    counts = [(plain(name), sign * (new.get(name, 0) - old.get(name, 0))) for name in names]
    return [f"{count} {name}" for name, count in counts if count > 0]


def gained(state, history):
    more, less = differences(state, history, 1), differences(state, history, -1)
    parts = [f"gained {', '.join(more)}"] if more else []
    parts += [f"lost or used {', '.join(less)}"] if less else []
    return f"Inventory: {'; '.join(parts)}." if parts else ""


def failed(deeds):
    """The last action was to make or place something and did not."""
    if not deeds or deeds[-1]["action"] not in RECIPES or worked(deeds[-1]):
        return ""
    last = deeds[-1]
    action = last["action"]
    why = missing(action, last["before"])
    reason = f" It needs {', '.join(why)}." if why else ""
    again = sum(1 for deed in deeds if deed["action"] == action and not worked(deed))
    if again > 1:
        return f"{action} failed {again} times lately.{reason} Do not try it again before that has changed."
    return f"{action} failed: nothing was made.{reason}"


def repetition(deeds):
    """The same action over and over, without effect."""
    if not deeds:
        return ""
    recent, action = deeds[-8:], deeds[-1]["action"]
    if action == "Noop" or deeds[-1]["after"]["sleeping"]:
        return ""
    same = [deed for deed in recent if deed["action"] == action]
    vain = sum(1 for deed in same if not worked(deed))
    if vain >= 3 or (len(same) >= 5 and vain >= 2):
        return f"{action} was done {len(same)} times in the last {len(recent)} steps, {vain} times without effect."
    return ""


def pacing(deeds):
    """Back and forth between two squares."""
    actions = [deed["action"] for deed in deeds[-6:]]
    moves = [action for action in actions if action in OPPOSITE]
    turns = sum(1 for one, other in pairwise(moves) if OPPOSITE[one] == other)
    if len(moves) >= 5 and len(set(actions)) <= 2 and turns >= 3:
        return "You are going back and forth. Choose one direction and keep to it."
    return ""


def idle(deeds):
    """How long nothing was done."""
    count = 0
    for deed in reversed(deeds):
        if deed["action"] != "Noop" or deed["before"]["sleeping"]:
            break
        count += 1
    if count >= 8:
        return f"Noop for {count} steps or more: time is running out. Act now."
    return f"Noop for {count} steps: nothing gets better by waiting." if count >= 4 else ""


def noops(history):
    """How many of the latest steps in a row were Noop."""
    count = 0
    for step in reversed(history["steps"]):
        if step["action"] != "Noop" or step["state"]["sleeping"]:
            break
        count += 1
    return count


# What is dangerous


def threats(state, history):
    """Blows taken, and what is about to strike or shoot."""
    health = state["status"]["health"]
    lost = history["last"]["state"]["status"]["health"] - health if history["last"] else 0
    lines = [f"You lost {lost} health."] if lost > 0 else []
    for names, reach, word in ((HOSTILE, 2, "within reach"), (("arrow",), 2, "about to hit")):
        lines += [f"{where(thing)}: {word}." for thing in all_within(state, names, reach)]
    shooter = nearest(state, ("skeleton",), 4)
    if shooter and shooter["distance"] > 2:
        lines.append(f"{where(shooter)}: it can shoot along its row or column.")
    if not lines:
        return ""
    advice = "Flee: put distance or a stone between you." if health <= 3 else "Fight it facing it, or leave."
    return f"DANGER: {' '.join(lines)} {advice}"


def vitals(state):
    status, lines = state["status"], []
    if status["health"] <= 4:
        lines.append("health is critical, avoid every fight" if status["health"] <= 2 else "health is low")
    for name, remedy in (("food", "eat a cow or a ripe plant"), ("drink", "drink at water")):
        if status[name] <= 3:
            lines.append(f"{name} is {'almost gone, now' if status[name] <= 1 else 'low'}: {remedy}")
    return f"URGENT: {'; '.join(lines)}." if lines else ""


# What is possible


def missing(action, state):
    """What `action` lacks, as texts. A table told two steps straight away may hide one that touches you."""
    costs, near, grounds = RECIPES[action]
    bag, ahead = state["inventory"], state["facing"]["name"]
    short = {name: count for name, count in costs.items() if bag.get(name, 0) < count}
    lacks = [f"{count} {name} (you have {bag.get(name, 0)})" for name, count in short.items()]
    for name in near:
        found = thing(state, name)
        if found is None:
            lacks.append(f"a {name} beside you (none in view)")
        elif far(found):
            lacks.append(f"a {name} on one of the eight squares around you (the nearest is {steps(found)})")
    if grounds and ahead not in grounds:
        lacks.append(f"{' or '.join(grounds)} in front of you (you face {ahead})")
    return lacks


def far(found):
    """Surely not on one of the eight squares around: told are nearest things, and (1,1) is as near as (0,2)."""
    return found["distance"] > 2 or (found["dx"], found["dy"]) == (0, 2)


def beside(found):
    """Surely on one of the eight squares around."""
    return found is not None and abs(found["dx"]) <= 1 and abs(found["dy"]) <= 1


def lacks_tool(state):
    ahead = state["facing"]["name"]
    tool = TOOL_FOR.get(ahead)
    if tool and tool not in state["inventory"]:
        return f"{ahead} cannot be gathered without a {plain(tool)}."
    return None


def craftable(state):
    """What can be made right here and is not in the bag yet."""
    wanted = [name for name in RECIPES if name.startswith("Make ") and key(name) not in state["inventory"]]
    here = [name for name in wanted if all(beside(thing(state, near)) for near in RECIPES[name][1])]
    return [name for name in here if not missing(name, state)]


def placed(state, deeds):
    if not deeds or deeds[-1]["action"] not in ("Place Table", "Place Furnace") or not worked(deeds[-1]):
        return ""
    name = deeds[-1]["action"].split()[1].lower()
    can = craftable(state)
    return f"You have just placed a {name}. {'Now: ' + ', '.join(can) + '.' if can else 'Make what you can here.'}"


def table(state):
    """A table in view, and what can be made at it."""
    found = thing(state, "table")
    if found is None:
        return ""
    can = craftable(state)
    if can:
        return f"A table is beside you. You can: {', '.join(can)}."
    return f"A table is in view: {steps(found)}."


def tech_tree(state):
    bag = state["inventory"]
    best = [f"{next_best(bag, tool)} {tool}" for tool in ("pickaxe", "sword")]
    have = ", ".join(f"{bag[name]} {name}" for name in MATERIALS if name in bag) or "no materials"
    lines = [f"Tools: {', '.join(best)}. Materials: {have}.", f"NEXT: {ladder(state)}"]
    also = [name for name in craftable(state) if name not in lines[1]]
    also += [f"{where(t)} can be gathered" for t in on_the_way(state)]
    return "\n".join(lines + ([f"ALSO: {'; '.join(also)}."] if also else []))


def next_best(bag, tool):
    made = [grade for grade in ("iron", "stone", "wood") if f"{grade}_{tool}" in bag]
    return made[0] if made else "no"


def ladder(state):
    """The one next step: tools in order, each with what it still needs."""
    bag = state["inventory"]
    if "wood_pickaxe" not in bag:
        return tool_step(state, "Make Wood Pickaxe", spare_wood=1)
    if "wood_sword" not in bag:
        return tool_step(state, "Make Wood Sword")
    if "stone_pickaxe" not in bag:
        return tool_step(state, "Make Stone Pickaxe")
    if "iron_pickaxe" not in bag:
        if thing(state, "table") and not thing(state, "furnace"):
            return furnace_step(state)
        return tool_step(state, "Make Iron Pickaxe")
    if "diamond" not in bag:
        return gather(state, "diamond", 1)
    return "the tech tree is done: look at progress.txt for what is left."


def tool_step(state, action, spare_wood=0):
    """Rarest material first, then a table, then a furnace, then make it."""
    costs, near, _ = RECIPES[action]
    bag, needs = state["inventory"], dict(costs)
    if thing(state, "table") is None:
        needs["wood"] += RECIPES["Place Table"][0]["wood"] + spare_wood
    for name in ("iron", "coal", "stone", "wood"):
        if bag.get(name, 0) < needs.get(name, 0):
            return gather(state, name, needs[name], f"for {action}")
    for name in near:
        found = thing(state, name)
        if found is None:
            return f"go back to a {name} you know from memory, or Place {name.title()}, for {action}."
        if not beside(found):
            return f"go to the {name}, {steps(found)}, for {action}."
    return f"{action}."


def furnace_step(state):
    needed = RECIPES["Place Furnace"][0]["stone"]
    if state["inventory"].get("stone", 0) < needed:
        return gather(state, "stone", needed, "for a furnace beside the table")
    return "Place Furnace beside the table, so that one square touches both."


def gather(state, name, count, purpose=""):
    have, source = state["inventory"].get(name, 0), SOURCE[name]
    found = thing(state, source)
    place = f"the nearest {source} is {steps(found)}" if found else f"no {source} in view, search memory or explore"
    return f"gather {name} ({have} of {count}) {purpose}".strip() + f": {place}."


def on_the_way(state):
    """Ores within three steps that the tools at hand can take."""
    bag = state["inventory"]
    ores = [thing(state, name) for name in ("diamond", "iron", "coal")]
    return [t for t in ores if t and t["distance"] <= 3 and TOOL_FOR[t["name"]] in bag and bag.get(t["name"], 0) < 2]


def easy_sleep(state):
    if state["status"]["energy"] >= 9 or state["sleeping"] or nearest(state, HOSTILE, 99):
        return ""
    return "Sleep until you wake: no enemy is in view."


def easy_stone(state):
    return "" if missing("Place Stone", state) else "Place Stone in front of you; Do takes it back."


def easy_plant(state):
    if "sapling" in state["inventory"]:
        return "Place Plant" + (" here." if state["facing"]["name"] == "grass" else ": face grass first.")
    return ""


def easy_drink(state):
    water = nearest(state, ("water",), 4)
    return f"drink: {where(water)}." if water and state["status"]["drink"] < 9 else ""


# Looking things up


def thing(state, name):
    """The nearest thing of this name in view, or None."""
    for found in state["nearby"]:
        if found["name"] == name:
            return found
    return None


def all_within(state, names, reach):
    return [found for found in state["nearby"] if found["name"] in names and found["distance"] <= reach]


def nearest(state, names, reach):
    """The nearest of these things within `reach` steps, or None; `nearby` is ordered by distance."""
    found = all_within(state, names, reach)
    return found[0] if found else None


def steps(found):
    return f"{found['distance']} step{'s' if found['distance'] > 1 else ''} {found['direction']}"


def where(found):
    return f"{found['name']} {steps(found)}"


def plain(name):
    return name.replace("_", " ")


def key(action):
    """`Make Wood Pickaxe` -> `wood_pickaxe`."""
    return action.split(" ", 1)[1].lower().replace(" ", "_")
