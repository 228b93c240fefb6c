"""nethack-v0 and nethack-v2: the map analysis, the files kept by code, stairs first, on states made by hand."""

import json
import os
import subprocess
import sys

import pytest

from automem.grammar import Operation
from automem.memory.files import Memory
from automem.scaffold.logic import Logic
from automem.scaffold.spec import load

V0 = Logic("nethack-v0", load("nethack-v0").logic)
V2 = Logic("nethack-v2", load("nethack-v2").logic)
SIDES = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
PASSABLE = ("floor", "doorway", "open door", "stairs down", "stairs up", "pet", "object", "corridor")


def state(position=(1, 10, 5), here=None, prompt=None, stairs=(), doors=(), inventory=None, **around):
    kinds = dict.fromkeys(SIDES, "floor") | around
    return {
        "message": "",
        "task": "default",
        "prompt": prompt,
        "position": list(position),
        "here": here,
        "dlvl": position[0],
        "gold": 7,
        "hp": 12,
        "max_hp": 16,
        "ac": 6,
        "xl": 1,
        "turn": 40,
        "hunger": "not hungry",
        "burden": "unencumbered",
        "conditions": [],
        "adjacent": {side: {"kind": k, "name": k, "passable": k in PASSABLE} for side, k in kinds.items()},
        "stairs": [{"kind": kind, "position": list(place)} for kind, place in stairs],
        "doors": [{"kind": kind, "position": list(place)} for kind, place in doors],
        "inventory": inventory or {},
        "over": None,
    }


def history(action=None, step=0, visits=None):
    last = {"step": step - 1, "action": action, "state": state()} if action else None
    return {
        "step": step,
        "steps": [last] if last else [],
        "last": last,
        "unchanged": 0,
        "visits": {"1,10,5": 1} if visits is None else visits,
    }


def status(now, before="", action=None, step=0, visits=None):
    files = {"current_status.txt": before, "inventory.txt": ""}
    return V2.auto_files(now, history(action, step, visits), files, step=step)["current_status.txt"]


@pytest.mark.parametrize("logic", [V0, V2])
def test_map_analysis(logic):
    now = state(
        north="wall", east="closed door", south="lava", west="monster", southwest="pet", here="stairs up",
        stairs=[("stairs up", (10, 5)), ("stairs down", (20, 7))],
    )  # fmt: skip
    lines = logic.observe(now, history(), step=0)["map_analysis"].splitlines()
    assert lines == [
        "Free: northeast, southeast, southwest, northwest",
        "Blocked: north, east, south, west",
        "Doors: closed door east",
        "Monsters: monster west",
        "Pets: pet southwest",
        "Danger: lava south",
        "You stand on: stairs up",
        "stairs down: 10 steps east",
    ]


def test_open_doors_are_not_passed_diagonally():
    beside = V2.observe(state(northeast="open door", east="open door"), history(), step=0)["map_analysis"]
    assert "Free: north, east, southeast" in beside
    inside = V2.observe(state(here="open door"), history(), step=0)["map_analysis"]
    assert "Free: north, east, south, west" in inside
    assert "northeast" in V2.observe(state(northeast="doorway"), history(), step=0)["map_analysis"].splitlines()[0]


@pytest.mark.parametrize("logic", [V0, V2])
@pytest.mark.parametrize(
    ("written", "meant"),
    [("eat d", "eat"), ("far east", "far east"), ("far  north x", "far north"), ("search", "search"), (" ", " ")],
)
def test_combined_commands_are_cut(logic, written, meant):
    assert logic.repair(written, step=0) == meant


@pytest.mark.parametrize("side", SIDES)
def test_stairs_beside_are_named_by_their_own_side(side):
    told = V2.observe(state(**{side: "stairs down"}), history(), step=0)["stairs"]
    assert told.endswith(f"Go there now: {side}.")


def test_stairs_underfoot_come_first_but_not_before_an_answer():
    assert "Commit down now" in V2.observe(state(here="stairs down"), history(), step=0)["stairs"]
    assert V2.observe(state(here="stairs down", prompt="yes/no"), history(), step=0)["stairs"] == ""
    assert V2.observe(state(here="stairs up", north="stairs up"), history(), step=0)["stairs"] == ""
    diagonal = V2.observe(state(here="open door", northeast="stairs down"), history(), step=0)
    assert diagonal["stairs"] == ""


def test_status_is_written_from_the_state():
    assert status(state()).splitlines() == [
        "Level 1, position x=10, y=5, turn 40, step 0",
        "HP 12/16, AC 6, experience level 1, gold 7",
        "Hunger: not hungry. Conditions: none. unencumbered",
        "Tiles explored: 1",
        "Last actions: none",
    ]


def test_tiles_are_counted_once_and_over_levels():
    first = status(state())
    again = status(state(), first, "search", 1, {"1,10,5": 2})
    moved = status(state((1, 11, 5)), again, "east", 2, {"1,10,5": 2, "1,11,5": 1})
    below = status(state((2, 11, 5)), moved, "down", 3, {"1,11,5": 1, "2,11,5": 1})
    told = [text.splitlines()[3] for text in (first, again, moved, below)]
    assert told == [f"Tiles explored: {n}" for n in (1, 1, 2, 3)]
    assert below.splitlines()[4] == "Last actions: search, east, down"


def after(actions, now=None):
    text = ""
    for step, action in enumerate([None, *actions]):
        text = status(now or state(), text, action, step)
    return text


def test_the_last_ten_actions_are_kept():
    assert after([str(n) for n in range(14)]).splitlines()[4] == f"Last actions: {', '.join(map(str, range(4, 14)))}"


@pytest.mark.parametrize(
    ("actions", "warned"),
    [
        (["east", "west", "east", "west"], True),
        (["far east", "west", "far east", "far west"], True),
        (["east", "west", "east"], False),
        (["east", "search", "west", "east", "search", "west"], False),
        (["north", "east", "south", "west", "north", "east"], False),
        (["east", "west", "east", "west", *["search"] * 7], False),
    ],
)
def test_oscillation(actions, warned):
    assert ("WARNING: you go back and forth" in after(actions)) == warned


def test_the_warning_names_other_ways():
    now = state(**dict.fromkeys(SIDES, "wall") | {"east": "floor", "west": "floor", "south": "doorway"})
    assert after(["east", "west"] * 2, now).endswith("(west and east). Other ways: south.")


def test_inventory_is_a_copy_and_may_be_empty():
    def written(carried):
        files = {"current_status.txt": "", "inventory.txt": ""}
        return V2.auto_files(state(inventory=carried), history(), files, step=0)["inventory.txt"]

    assert written({"a": "a +0 axe", "d": "2 food rations"}) == "a: a +0 axe\nd: 2 food rations"
    assert written({}) == "nothing"


def memory():
    scaffold = load("nethack-v2")
    return Memory(scaffold.spec.files, scaffold.spec.memory, scaffold.initial)


def test_the_map_has_a_row_for_each_level_and_position():
    made = memory()
    for key in ("1,12,3", "(level=1, x=12, y=3)", "2, 12, 3", "level 2 x 12 y 3"):
        result = made.execute(Operation("UPSERT", ("dungeon_map.txt", key, "stairs down")), 1)
        assert result.ok, result.text
    assert [line.split(" | ")[0] for line in made.text("dungeon_map.txt").splitlines()] == ["1,12,3", "2,12,3"]
    refused = made.execute(Operation("UPSERT", ("dungeon_map.txt", "(x=12, y=3)", "fountain")), 1)
    assert not refused.ok and "level,x,y" in refused.text


def test_goals_outlive_the_notes_and_nothing_marks_what_went():
    made = memory()
    goals = load("nethack-v2").initial["strategy.txt"].strip().splitlines()
    for number in range(60):
        assert made.execute(Operation("APPEND", ("strategy.txt", f"lesson: {number}")), number).ok
    lines = made.text("strategy.txt").splitlines()
    assert lines == goals + [f"lesson: {number}" for number in range(35, 60)]


def test_write_is_not_offered_in_log():
    assert "WRITE" not in load("nethack-v2").spec.operations.log
    assert "WRITE" in load("nethack-v0").spec.operations.log


_PRINT = """
from automem.scaffold.logic import Logic
from automem.scaffold.spec import load
import json, sys
name, state, history = json.loads(sys.stdin.read())
logic = Logic(name, load(name).logic)
print(json.dumps(logic.observe(state, history, step=1)))
"""


@pytest.mark.parametrize("name", ["nethack-v2", "minihack-v4"])
def test_blocks_do_not_depend_on_the_hash_seed(name):
    now = state(northeast="stairs down", east="lava", stairs=[("stairs down", (11, 4))])
    told = []
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", _PRINT],
            input=json.dumps([name, now, history("east", 1)]),
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(done.stdout)
    assert "northeast" in told[0] and told[0] == told[1]
