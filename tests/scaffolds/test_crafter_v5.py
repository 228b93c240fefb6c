"""crafter-v5: each block, each rule of the gate, on states made by hand."""

import copy

import pytest

from automem.scaffold.logic import Logic
from automem.scaffold.spec import load

LOGIC = Logic("crafter-v5", load("crafter-v5").logic)
FED = {"health": 9, "food": 9, "drink": 9, "energy": 9}
COMPASS = {(0, -1): "north", (0, 1): "south", (1, 0): "east", (-1, 0): "west"}


def thing(name, dx, dy):
    sign = ((dx > 0) - (dx < 0), (dy > 0) - (dy < 0))
    words = [COMPASS[(0, sign[1])] if sign[1] else "", COMPASS[(sign[0], 0)] if sign[0] else ""]
    direction = "-".join(filter(None, words))
    return {"name": name, "distance": abs(dx) + abs(dy), "direction": direction, "dx": dx, "dy": dy}


def state(*things, ahead="grass", bag=None, position=(0, 0), sleeping=False, facing="north", **status):
    near = sorted((thing(*what) for what in things), key=lambda t: t["distance"])
    return {
        "position": list(position),
        "facing": {"direction": facing, "name": ahead},
        "nearby": near,
        "status": FED | status,
        "inventory": dict(bag or {}),
        "achievements": [],
        "sleeping": sleeping,
        "dead": False,
        "step": 0,
    }


def history(*steps, step=None):
    """Steps as (action, state before)."""
    told = [
        {"step": i, "action": action, "state": before, "fallback": False} for i, (action, before) in enumerate(steps)
    ]
    number = len(told) if step is None else step
    return {"step": number, "steps": told, "last": told[-1] if told else None, "unchanged": 0, "visits": {}}


def blocks(now, *steps):
    return LOGIC.observe(now, history(*steps), step=len(steps))


def guard(action, now, *steps):
    return LOGIC.guard(action, now, history(*steps), step=len(steps))


def test_nothing_to_say_at_the_start():
    told = blocks(state())
    assert {name for name, text in told.items() if text} == {"tech_tree"}


def test_gained_and_lost():
    told = blocks(state(bag={"wood": 3, "wood_pickaxe": 1}), ("Make Wood Pickaxe", state(bag={"wood": 4})))
    assert told["gained"] == "Inventory: gained 1 wood pickaxe; lost or used 1 wood."
    assert told["failed"] == ""


def test_a_failed_craft_is_told_with_the_reason_and_how_often():
    now = state(bag={"wood": 1})
    once = blocks(now, ("Make Wood Pickaxe", now))
    assert "Make Wood Pickaxe failed: nothing was made." in once["failed"]
    assert "a table beside you (none in view)" in once["failed"]
    again = blocks(now, ("Make Wood Pickaxe", now), ("Move East", now), ("Make Wood Pickaxe", now))
    assert "failed 2 times lately" in again["failed"]


@pytest.mark.parametrize(
    ("things", "told"),
    [
        ([("zombie", 1, 1)], "zombie 2 steps south-east: within reach."),
        ([("zombie", 2, 1)], ""),
        ([("skeleton", 0, -4)], "it can shoot"),
        ([("skeleton", 0, -5)], ""),
        ([("arrow", 2, 0)], "about to hit"),
        ([("arrow", 3, 0)], ""),
        ([("cow", 1, 0)], ""),
    ],
)
def test_threats(things, told):
    text = blocks(state(*things))["threats"]
    assert told in text and bool(text) == bool(told)


def test_lost_health_and_flight():
    text = blocks(state(("zombie", 1, 0), health=3), ("Do", state(("zombie", 1, 0), health=5)))["threats"]
    assert "You lost 2 health." in text and "Flee" in text
    assert "Fight" in blocks(state(("zombie", 1, 0), health=4))["threats"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"health": 4}, "health is low"),
        ({"health": 2}, "health is critical"),
        ({"food": 3}, "food is low"),
        ({"drink": 1}, "drink is almost gone"),
        ({"health": 5, "food": 4, "drink": 4}, ""),
    ],
)
def test_vitals(status, told):
    text = blocks(state(**status))["vitals"]
    assert told in text and bool(text) == bool(told)


def test_repetition_counts_what_had_no_effect():
    wall = state(ahead="water", drink=9)
    assert blocks(wall, *[("Do", wall)] * 3)["repetition"] == (
        "Do was done 3 times in the last 3 steps, 3 times without effect."
    )
    assert blocks(wall, *[("Do", wall)] * 2)["repetition"] == ""


def test_blows_sapling_hunts_sleep_and_walks_are_not_in_vain():
    for ahead in ("cow", "zombie", "grass"):
        assert blocks(state(ahead=ahead), *[("Do", state(ahead=ahead))] * 5)["repetition"] == ""
    asleep = state(sleeping=True)
    assert blocks(asleep, *[("Sleep", asleep)] * 5)["repetition"] == ""
    walk = [("Move East", state(position=(x, 0))) for x in range(5)]
    assert blocks(state(position=(5, 0)), *walk)["repetition"] == ""


def test_pacing_is_undoing_moves_not_walking():
    there_and_back = [(way, state(position=(i % 2, 0))) for i, way in enumerate(["Move East", "Move West"] * 3)]
    assert "back and forth" in blocks(state(), *there_and_back)["pacing"]
    walk = [("Move East", state(position=(x, 0))) for x in range(6)]
    assert blocks(state(position=(6, 0)), *walk)["pacing"] == ""


def test_idle_at_four_and_eight():
    now = state()
    assert [bool(blocks(now, *[("Noop", now)] * n)["idle"]) for n in (3, 4, 8)] == [False, True, True]
    assert "Act now" in blocks(now, *[("Noop", now)] * 8)["idle"]


def test_a_table_just_placed_and_a_table_in_view():
    placed = state(("table", 0, -1), ahead="table", bag={"wood": 2})
    told = blocks(placed, ("Place Table", state(bag={"wood": 4})))
    assert told["placed"] == "You have just placed a table. Now: Make Wood Pickaxe, Make Wood Sword."
    assert told["table"] == "A table is beside you. You can: Make Wood Pickaxe, Make Wood Sword."
    far_away = blocks(state(("table", 3, 0), bag={"wood": 2}))
    assert far_away["table"] == "A table is in view: 3 steps east." and far_away["placed"] == ""


WOODEN = {"wood_pickaxe": 1, "wood_sword": 1}
STONE = WOODEN | {"stone_pickaxe": 1}


@pytest.mark.parametrize(
    ("things", "bag", "told"),
    [
        ([("tree", 2, 0)], {}, "gather wood (0 of 4) for Make Wood Pickaxe: the nearest tree is 2 steps east."),
        ([], {"wood": 4}, "or Place Table, for Make Wood Pickaxe"),
        ([("table", 1, 1)], {"wood": 1}, "Make Wood Pickaxe."),
        ([("table", 4, 0)], {"wood": 1}, "go to the table, 4 steps east, for Make Wood Pickaxe."),
        ([("table", 1, 1)], {"wood": 1, "wood_pickaxe": 1}, "Make Wood Sword."),
        ([("table", 1, 1)], WOODEN | {"wood": 1}, "gather stone (0 of 1)"),
        ([("table", 1, 1)], WOODEN | {"wood": 1, "stone": 1}, "Make Stone Pickaxe."),
        ([("table", 1, 1)], STONE | {"stone": 3}, "gather stone (3 of 4) for a furnace"),
        ([("table", 1, 1)], STONE | {"stone": 4}, "Place Furnace beside the table"),
        ([("iron", 3, 0)], STONE, "gather iron (0 of 1) for Make Iron Pickaxe: the nearest iron is 3 steps east."),
        ([], STONE | {"iron": 1}, "gather coal (0 of 1) for Make Iron Pickaxe: no coal in view"),
        (
            [("table", 1, 1), ("furnace", 1, 0)],
            STONE | {"wood": 1, "iron": 1, "coal": 1},
            "Make Iron Pickaxe.",
        ),
        ([], STONE | {"iron_pickaxe": 1}, "gather diamond"),
        ([], STONE | {"iron_pickaxe": 1, "diamond": 1}, "the tech tree is done"),
    ],
)
def test_the_ladder(things, bag, told):
    text = blocks(state(*things, bag=bag))["tech_tree"]
    assert told in text.split("NEXT: ")[1]


def test_also_names_ores_on_the_way_that_the_tools_can_take():
    assert "ALSO: coal 2 steps east can be gathered" in blocks(state(("coal", 2, 0), bag=WOODEN))["tech_tree"]
    assert "ALSO" not in blocks(state(("iron", 2, 0), bag=WOODEN))["tech_tree"]


def test_easy_wins_are_named_only_where_they_are_easy():
    told = blocks(state(("water", 0, 2), bag={"stone": 1, "sapling": 1}, energy=8, drink=7))
    assert all(told[f"easy_{win}"] for win in ("wake_up", "place_stone", "place_plant", "collect_drink"))
    told = blocks(state(("zombie", 4, 0), ahead="tree", bag={"stone": 1}, energy=8))
    assert not any(told[f"easy_{win}"] for win in ("wake_up", "place_stone", "place_plant", "collect_drink"))


# The file of gains


def gains(now, before="", last=None, step=0):
    steps = [("Do", last)] if last else []
    return LOGIC.auto_files(now, history(*steps, step=step), {"gains.txt": before}, step=step)["gains.txt"]


def test_gains_keep_the_step_of_the_last_one():
    first = gains(state())
    assert first == "Last gain: none since step 0."
    kept = gains(state(bag={"wood": 1}), first, last=state(), step=12)
    assert kept == "Last gain: 1 wood at step 12."
    assert gains(state(bag={"wood": 1}), kept, last=state(bag={"wood": 1}), step=41) == kept
    later = gains(state(bag={"wood": 1}), kept, last=state(bag={"wood": 1}), step=42)
    assert later.startswith(kept) and "for 30 steps" in later
    latest = gains(state(), later, last=state(bag={"wood": 1}), step=62)
    assert "for 50 steps" in latest and latest.count("\n") == 1


def test_an_empty_bag_is_no_gain():
    assert "Nothing gained for 30 steps" in gains(state(), gains(state()), last=state(), step=30)
    assert "Nothing" not in gains(state(sleeping=True), gains(state()), last=state(), step=60)


# The gate


@pytest.mark.parametrize(
    ("action", "now", "why"),
    [
        ("Make Wood Pickaxe", state(("table", 1, 1)), "1 wood (you have 0)"),
        ("Make Wood Pickaxe", state(bag={"wood": 1}), "a table beside you (none in view)"),
        ("Make Wood Pickaxe", state(("table", 2, 1), bag={"wood": 1}), "the nearest is 3 steps south-east"),
        ("Make Wood Pickaxe", state(("table", 0, 2), bag={"wood": 1}), "the nearest is 2 steps south"),
        ("Make Wood Pickaxe", state(("table", -1, 1), bag={"wood": 1}), None),
        # Another table may touch: of equally near ones only the first is told.
        ("Make Wood Pickaxe", state(("table", 0, -2), bag={"wood": 1}), None),
        ("Make Iron Sword", state(("table", 1, 0), bag={"wood": 1, "coal": 1, "iron": 1}), "a furnace beside you"),
        ("Place Table", state(bag={"wood": 1}), "2 wood (you have 1)"),
        ("Place Table", state(bag={"wood": 2}, ahead="water"), "you face water"),
        ("Place Table", state(bag={"wood": 2}, ahead="sand"), None),
        ("Place Furnace", state(bag={"stone": 3}), "4 stone (you have 3)"),
        ("Place Stone", state(bag={"stone": 1}, ahead="lava"), None),
        ("Place Stone", state(bag={"stone": 1}, ahead="cow"), "you face cow"),
        ("Place Plant", state(bag={"sapling": 1}, ahead="sand"), "grass in front of you"),
        ("Place Plant", state(bag={"sapling": 1}), None),
        ("Do", state(ahead="stone"), "cannot be gathered without a wood pickaxe"),
        ("Do", state(ahead="iron", bag={"wood_pickaxe": 1}), "without a stone pickaxe"),
        ("Do", state(ahead="iron", bag=STONE), None),
        ("Do", state(ahead="tree"), None),
        ("Sleep", state(("zombie", 2, 1)), "a zombie is 3 steps"),
        ("Sleep", state(("skeleton", 2, 2)), None),
        ("Move East", state(("lava", 1, 0)), None),
    ],
)
def test_the_gate(action, now, why):
    reason = guard(action, now)
    assert (reason is None) if why is None else (why in reason)


def test_the_sixth_noop_in_a_row_is_turned_back():
    now = state()
    assert guard("Noop", now, *[("Noop", now)] * 4) is None
    assert "5 steps" in guard("Noop", now, *[("Noop", now)] * 5)
    assert guard("Noop", now, *[("Noop", now)] * 3, ("Do", now), *[("Noop", now)] * 2) is None


def test_nothing_is_turned_back_while_asleep():
    now = state(("zombie", 1, 0), sleeping=True)
    assert guard("Noop", now, *[("Noop", now)] * 8) is None and guard("Sleep", now) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("move_north", "Move North"),
        ("go east", "Move East"),
        ("south", "Move South"),
        ("Move Northeast", "Move North"),
        ("move south-west", "Move South"),
        ("MAKE WOOD PICKAXE", "Make Wood Pickaxe"),
        ('"Do".', "Do"),
        ("place_table", "Place Table"),
        ("fly", "Fly"),
        ("!", "!"),
    ],
)
def test_repair(written, meant):
    assert LOGIC.repair(written, step=0) == meant


def test_without_positions_it_works_too():
    now = {name: value for name, value in state(bag={"wood": 1}).items() if name != "position"}
    before = copy.deepcopy(now)
    assert blocks(now, ("Move East", before), ("Move East", before), ("Move East", before))["repetition"]


def test_recipes_are_those_of_the_library():
    constants = pytest.importorskip("crafter").constants
    table = load("crafter-v5").logic
    places, makes = constants.place, constants.make
    for name, rule in makes.items():
        told = f'"Make {name.replace("_", " ").title()}": ({rule["uses"]}, '.replace("'", '"')
        assert told in table and all(f'"{near}"' in table for near in rule["nearby"])
    for name, rule in places.items():
        now = state(bag=rule["uses"])
        grounds = [ground for ground in constants.materials if not guard(f"Place {name.title()}", ahead(now, ground))]
        assert sorted(grounds) == sorted(rule["where"])
    for name, rule in constants.collect.items():
        bare = guard("Do", state(ahead=name))
        assert (bare is not None) == bool(rule["require"])
        assert guard("Do", state(ahead=name, bag=rule["require"])) is None


def ahead(now, ground):
    return now | {"facing": {"direction": "north", "name": ground}}


def test_the_checklist_has_the_achievements_of_the_library():
    constants = pytest.importorskip("crafter").constants
    rows = load("crafter-v5").initial["progress.txt"].splitlines()
    assert [row.split(" | ")[0] for row in rows] == [name.replace("_", " ") for name in constants.achievements]
