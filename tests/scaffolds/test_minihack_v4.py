"""minihack-v0 and minihack-v4: each block on states made by hand, and the prompts that depend on task and question."""

import pytest
from test_nethack_v2 import SIDES, state

from automem import plugins
from automem.scaffold.logic import Logic
from automem.scaffold.prompts import Prompts
from automem.scaffold.spec import load

SCAFFOLD = load("minihack-v4")
LOGIC = Logic("minihack-v4", SCAFFOLD.logic)
WALLS = dict.fromkeys(SIDES, "wall")
PLAIN = {"task": "corridor-r3"}


def at(x=10, y=5, **parts):
    return state(position=(0, x, y), **parts) | {"position": [x, y]} | PLAIN


def history(*steps, visits=None):
    """Steps as (action, state before)."""
    told = [{"step": i, "action": action, "state": before} for i, (action, before) in enumerate(steps)]
    return {
        "step": len(told),
        "steps": told,
        "last": told[-1] if told else None,
        "unchanged": 0,
        "visits": {"10,5": 1} if visits is None else visits,
    }


def blocks(now, *steps, visits=None):
    return LOGIC.observe(now, history(*steps, visits=visits), step=len(steps))


def walk(*places, action="east"):
    return [(action, at(*place)) for place in places]


def test_the_first_step():
    told = blocks(at(**WALLS | {"east": "floor"}))
    assert told["tracker"] == "You are at 10,5, for the 1st time. Not visited yet: east."
    assert told["actions"] == told["warnings"] == told["mandatory"] == told["stairs"] == told["doors"] == ""


def test_oscillation_needs_two_reversals_in_six_steps():
    two = [("east", at(10)), ("west", at(11)), ("east", at(10))]
    assert "back and forth between west and east" in blocks(at(11), *two)["warnings"]
    assert "Try north, northeast, southeast, south, southwest, northwest." in blocks(at(11), *two)["warnings"]
    one = [("east", at(10)), ("west", at(11)), ("north", at(10))]
    assert blocks(at(10, 4), *one)["warnings"] == ""
    old = [*two, *walk((11, 5), (12, 5), (13, 5), (14, 5), action="south")]
    assert "back and forth" not in blocks(at(15), *old)["warnings"]


def test_repetition_is_not_a_walk():
    assert "search three times in a row" in blocks(at(), *walk(*[(10, 5)] * 3, action="search"))["warnings"]
    assert "east three times in a row" in blocks(at(), *walk(*[(10, 5)] * 3))["warnings"]
    assert blocks(at(13), *walk((10, 5), (11, 5), (12, 5)))["warnings"] == ""


def test_critical_and_stuck():
    two = [("east", at(10 + i % 2)) for i in range(5)]
    assert "CRITICAL" in blocks(at(11), *two)["tracker"]
    three = [("east", at(10 + i % 3)) for i in range(9)]
    assert "STUCK" in blocks(at(10), *three)["tracker"]
    assert "CRITICAL" not in blocks(at(10), *three)["tracker"]
    four = [("east", at(10 + i % 4)) for i in range(9)]
    assert "STUCK" not in blocks(at(10), *four)["tracker"]


def test_mandatory_direction():
    open_sides = WALLS | {"east": "floor", "south": "floor"}
    fresh = {"10,5": 4, "11,5": 2}
    assert blocks(at(**open_sides), visits=fresh)["mandatory"].startswith("MANDATORY: go south; you have been here 4")
    assert blocks(at(**open_sides), visits=fresh | {"10,5": 3})["mandatory"] == ""
    known = {"10,5": 4, "11,5": 2, "10,6": 1}
    assert blocks(at(**open_sides), visits=known)["mandatory"] == ""
    assert blocks(at(**open_sides), visits=known | {"10,5": 5})["mandatory"].startswith("MANDATORY: go south; of the")


def test_no_mandatory_direction_in_a_fight_or_a_puzzle():
    crowded = {"10,5": 9, "11,5": 2}
    assert blocks(at(west="monster"), visits=crowded)["mandatory"] == ""
    assert blocks(at() | {"task": "boxoban-hard"}, visits=crowded)["mandatory"] == ""


def test_directions_tried_in_vain_are_remembered_until_the_agent_moves():
    stuck = [("north", at()), ("far east", at())]
    told = blocks(at(), *stuck)
    assert "Did not move you from here: north, east." in told["tracker"]
    assert told["map_analysis"].startswith("Free: northeast, southeast,")
    assert "Did not move" not in blocks(at(10, 6), *stuck, ("south", at()))["tracker"]


def test_answers_are_not_moves():
    asked = at(prompt="direction")
    told = blocks(at(), ("open", at()), ("east", asked), visits={"10,5": 3})
    assert "for the 2nd time" in told["tracker"] and "Did not move" not in told["tracker"]
    assert not any(blocks(asked).values())


@pytest.mark.parametrize("side", SIDES)
def test_stairs_beside_give_the_action(side):
    assert blocks(at(**{side: "stairs down"}))["stairs"] == f"THE STAIRS DOWN ARE NEXT TO YOU. Commit ACTION {side}."


def test_stairs_in_sight():
    told = blocks(at(stairs=[("stairs down", (18, 6)), ("stairs up", (9, 5))], southeast="wall"))["stairs"]
    assert told == "Stairs down: 8 steps east. Free that way: east, northeast."
    shut = blocks(at(**WALLS, stairs=[("stairs down", (18, 6))]))["stairs"]
    assert "No square that way is free: go round." in shut
    assert "Commit ACTION down" in blocks(at(here="stairs down"))["stairs"]


def test_a_detour_where_lava_lies():
    lava = {"east": "lava", "northeast": "lava", "stairs": [("stairs down", (18, 5))]}
    assert "go north along it" in blocks(at(**lava), visits={"10,5": 1, "10,6": 1})["stairs"]
    assert "go south along it" in blocks(at(**lava), visits={"10,5": 1, "10,4": 1})["stairs"]
    assert "freeze or bridge it" in blocks(at(**WALLS | lava))["stairs"]
    assert "Lava" not in blocks(at(east="lava", stairs=[("stairs down", (18, 5))]))["stairs"]


def test_the_nearest_four_doors():
    places = [(30, 5), (12, 5), (10, 5), (10, 9), (2, 5), (16, 5)]
    told = blocks(at(doors=[("doorway", place) for place in places]))["doors"]
    assert told == "doorway 2 steps east; doorway 4 steps south; doorway 6 steps east; doorway 8 steps west"


def test_boxoban_has_four_directions():
    puzzle = at(east="boulder", north="iron bars")
    told = blocks(puzzle | {"task": "boxoban-hard"})["map_analysis"]
    assert "Free: south, west" in told and "boulder east" in told and "northeast" not in told
    assert "northeast" in blocks(puzzle)["map_analysis"]


def auto_log(before, actions_log, *steps, message=""):
    files = {"auto_log.txt": before, "actions_log.txt": actions_log}
    now = at() | {"message": message}
    return LOGIC.auto_files(now, history(*steps), files, step=len(steps))["auto_log.txt"]


def test_steps_that_were_not_logged_are_kept_by_code():
    start = auto_log("", "")
    first = auto_log(start, "", *walk((10, 5)), message="The door is locked.")
    assert first == "# (nothing)\nStep 0: east -> The door is locked."
    logged = auto_log(first, "Went east.", *walk((10, 5), (11, 5)))
    assert logged == "# Went east.\nStep 0: east -> The door is locked."
    text = logged
    for count in range(3, 20):
        text = auto_log(text, "Went east.", *walk(*[(10, 5)] * count))
    assert text.splitlines()[0] == "# Went east." and len(text.splitlines()) == 9
    assert text.splitlines()[-1] == "Step 18: east"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("go north", "north"), ("move to the east", "east"), ("eat d", "eat"), ("far west", "far west"), ("go", "go")],
)
def test_repair(written, meant):
    assert LOGIC.repair(written, step=0) == meant


# Prompts


def goals():
    pytest.importorskip("minihack")
    plugins.load_module(plugins.find(plugins.ENV, "nethack"))
    module = plugins.load_module(plugins.find(plugins.ENV, "minihack"))
    return {name: task.goal for name, task in module.tasks.TASKS.items()}


def test_every_task_has_its_own_tips():
    titles = {}
    for task, goal in goals().items():
        system = Prompts("minihack-v4", SCAFFOLD.prompts).render(
            "system.j2",
            {"instructions": goal, "actions": ["north"], "default_action": "north", "operations_help": ""},
            step=0,
        )
        titles[task] = next(line for line in system.splitlines() if line.startswith("# This task"))
    assert titles == {
        "mazewalk-9x9": "# This task: a maze",
        "mazewalk-15x15": "# This task: a maze",
        "corridor-r3": "# This task: rooms and corridors",
        "corridorbattle-dark": "# This task: a battle in a corridor",
        "quest-easy": "# This task: a quest",
        "quest-medium": "# This task: a quest",
        "boxoban-medium": "# This task: Boxoban",
        "boxoban-hard": "# This task: Boxoban",
    }


def plan(now):
    class View:
        index = "- actions_log.txt (log, 1 lines)"

        def tail(self, name, lines):
            return "Went east."

    variables = {
        "observation": "message:\n...",
        "state": now,
        "history": history(),
        "memory": View(),
        "blocks": blocks(now),
        "operations": ["READ", "ACTION"],
    }
    return Prompts("minihack-v4", SCAFFOLD.prompts).render("plan.j2", variables, step=0)


@pytest.mark.parametrize(
    ("asks", "answer"),
    [
        ("direction", "a direction"),
        ("item", "the letter of one thing"),
        ("yes/no", "yes or no"),
        ("choice", "one of the letters"),
        ("menu", "by letter, then more"),
        ("text", "letter by letter"),
        ("position", "cursor"),
        ("more", "more to go on"),
    ],
)
def test_a_question_is_answered_as_it_asks_and_without_memory(asks, answer):
    text = plan(at(prompt=asks) | {"message": "What do you want to eat? [d or ?*]"})
    assert answer in text and "What do you want to eat?" in text
    assert "# PLAN" in text and "# Memory" not in text and "MAP ANALYSIS" not in text


def test_plan_shows_the_last_lines_of_the_log():
    text = plan(at())
    assert "> Went east." in text and "# Memory" in text
