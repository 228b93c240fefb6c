"""Crafter: the text against the simulator, the rules, and that nothing but seed and actions counts."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from automem import env as envs
from automem.errors import UsageError

crafter = pytest.importorskip("crafter", reason="needs the package crafter: pip install 'automem[envs]'")
from crafter import constants, objects  # noqa: E402

SIDES = {"West": (-1, 0), "East": (1, 0), "North": (0, -1), "South": (0, 1)}
CREATURES = ("cow", "zombie", "skeleton", "arrow", "plant", "fence")


def made(area=12, seed=7, **options):
    env = envs.make("crafter", area=area, **options)
    env.reset(seed=seed)
    return env


def meadow(**options):
    """A world of grass with nobody but the player on it."""
    env = made(**options)
    world = env.simulator.world
    for thing in world.objects[1:]:
        world.remove(thing)
    for x in range(world.area[0]):
        for y in range(world.area[1]):
            world[x, y] = "grass"
    return env


def put(env, dx, dy, name):
    """Put a material or an object `dx` squares east and `dy` south of the player."""
    world, player = env.simulator.world, env.simulator.player
    pos = player.pos + np.array((dx, dy))
    if world[pos][1]:
        world.remove(world[pos][1])
    if name in constants.materials:
        world[pos] = name
        return
    extra = {"zombie": [player], "skeleton": [player], "arrow": [np.array((0, 1))]}.get(name, [])
    world[pos] = "grass"
    world.add(getattr(objects, name.title())(world, pos, *extra))


def look(env):
    """Observation and state of the position as it stands."""
    observation, info = env._observe()
    return observation, info["state"]


def kept_alive(env):
    player = env.simulator.player
    player.inventory.update(health=9, food=9, drink=9, energy=9)
    player._last_health = 9


# Determinism


def played(env, steps, seed, each=lambda step: None):
    told = []
    draw = random.Random(seed)
    for step in range(steps):
        kept_alive(env)
        told.append(env.step(draw.choice(env.actions)))
        each(step)
    return told


PLAY = """
import hashlib, random
from automem import env as envs
env = envs.make("crafter", area=32)
told, draw = [env.reset(seed=42)], random.Random(1)
for step in range(400):
    told.append(env.step(draw.choice(env.actions)))
    if told[-1][2]:
        told.append(env.reset())
print(hashlib.sha256(repr(told).encode()).hexdigest())
"""


def test_two_processes_play_the_same_episode():
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", f"pad = [object() for _ in range({pad})]\n{PLAY}"],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        for pad, seed in ((0, "0"), (9999, "4242"))
    ]
    first, second = (run.communicate()[0] for run in runs)
    assert first == second
    assert len(first) == 65


def test_the_dynamics_are_the_librarys():
    env = made(area=32, seed=3)
    library = crafter.Env(area=(32, 32), seed=0)
    library._world = type(env.simulator.world)((32, 32), constants.materials, (12, 12))
    library._obs = library._sem_view = lambda: None
    library.reset()
    env.simulator.begin(hash((0, 1)) % (2**31 - 1))
    draw = random.Random(5)
    for _ in range(320):
        number = draw.randrange(len(env.actions))
        for player in (env.simulator.player, library._player):
            player.inventory.update(health=9, food=9, drink=9)
        env.simulator.advance(constants.actions[number])
        library.step(number)
        mine, theirs = env.simulator.world, library._world
        assert (mine._mat_map == theirs._mat_map).all()
        assert [(type(o), *o.pos) for o in mine.objects] == [(type(o), *o.pos) for o in theirs.objects]
        assert env.simulator.player.inventory == library._player.inventory


def test_frames_do_not_change_the_episode():
    unseen, small, large = (
        made(area=32, render_mode=mode, size=size) for mode, size in ((None, 99), ("rgb_array", 45), ("rgb_array", 100))
    )
    plain = played(unseen, 330, 2)
    assert played(small, 330, 2, lambda step: step % 5 or small.render()) == plain
    assert played(large, 330, 2, lambda step: step < 200 or step % 3 or large.render()) == plain


def test_a_frame_is_the_same_whenever_it_is_drawn():
    env = made(render_mode="rgb_array", size=100)
    day = env.render()
    assert day.shape == (100, 100, 3)
    assert day.dtype == np.uint8
    played(env, 210, 4)
    night = env.render()
    assert (env.render() == night).all()
    again = made(render_mode="rgb_array", size=100)
    played(again, 210, 4)
    assert (again.render() == night).all()
    env._step += 1
    assert (env.render() != night).any(), "each step of the night has its own noise"


def test_no_frame_without_a_render_mode():
    assert made().render() is None


def test_seeds_decide_the_world():
    env = envs.make("crafter", area=16)
    first = env.reset(seed=5)
    unseeded = env.reset()
    assert unseeded != first
    assert env.reset(seed=5) == first
    assert env.reset() == unseeded
    assert made(seed=6)._observe() != first


def test_gymnasium_accepts_it():
    check_env(envs.make("crafter", area=9), skip_render_check=True)


# Text and state


@pytest.mark.parametrize("side", SIDES)
def test_facing_names_what_is_there(side):
    env = meadow()
    dx, dy = SIDES[side]
    for name in (*constants.materials, *CREATURES):
        put(env, dx, dy, name)
        env.simulator.player.facing = (dx, dy)
        observation, state = look(env)
        assert f"Facing {side.lower()}: {name}\n" in observation
        assert state["facing"] == {"direction": side.lower(), "name": name}


@pytest.mark.parametrize("side", SIDES)
def test_moving_turns_the_player_even_where_it_cannot_go(side):
    env = meadow()
    dx, dy = SIDES[side]
    put(env, 2 * dx, 2 * dy, "stone")
    for _ in range(2):
        observation, _, _, _, info = env.step(f"Move {side}")
        assert f"Position: {dx},{dy}\nFacing {side.lower()}: stone\n" in observation
        assert info["state"]["position"] == [dx, dy]


def test_every_kind_in_view_is_told_once_and_nearest_first():
    env = meadow()
    names = [name for name in (*constants.materials, *CREATURES) if name != "grass"]
    squares = sorted(((x, y) for x in range(1, 5) for y in range(-3, 4)), key=lambda s: abs(s[0]) + abs(s[1]))
    for (dx, dy), name in zip(squares, names, strict=False):
        put(env, dx, dy, name)
        put(env, -4, dy, name)
    observation, state = look(env)
    told = [thing["name"] for thing in state["nearby"]]
    assert sorted(told) == sorted([*names, "grass"])
    assert [t["distance"] for t in state["nearby"]] == sorted(t["distance"] for t in state["nearby"])
    for thing in state["nearby"]:
        assert thing["distance"] == abs(thing["dx"]) + abs(thing["dy"])
        steps = "1 step" if thing["distance"] == 1 else f"{thing['distance']} steps"
        assert f"- {thing['name']}: {steps} {thing['direction']}\n" in observation
    assert len(observation.split()) <= 150


@pytest.mark.parametrize(
    ("dx", "dy", "direction"),
    [
        (0, -2, "north"),
        (1, -3, "north-east"),
        (4, 0, "east"),
        (4, 3, "south-east"),
        (0, 3, "south"),
        (-1, 1, "south-west"),
        (-4, 0, "west"),
        (-4, -3, "north-west"),
    ],
)
def test_directions(dx, dy, direction):
    env = meadow()
    put(env, dx, dy, "water")
    thing = next(thing for thing in look(env)[1]["nearby"] if thing["name"] == "water")
    distance = abs(dx) + abs(dy)
    assert thing == {"name": "water", "distance": distance, "direction": direction, "dx": dx, "dy": dy}


def test_equally_near_things_are_told_from_north_to_south():
    env = meadow()
    for dx, dy in ((1, 1), (-2, 0), (1, -1)):
        put(env, dx, dy, "coal")
    assert "- coal: 2 steps north-east\n" in look(env)[0]


def test_what_is_out_of_view_is_not_told():
    env = meadow()
    for dx, dy in ((5, 0), (-5, 0), (0, 4), (0, -4)):
        put(env, dx, dy, "diamond")
    assert "diamond" not in look(env)[0]


def test_the_edge_of_the_world():
    env = meadow(area=9)
    for _ in range(5):
        env.simulator.advance("move_up")
    observation, state = look(env)
    assert state["position"] == [0, -4]
    assert "Facing north: edge of the world\n" in observation
    assert [thing["name"] for thing in state["nearby"]] == ["grass"]


def test_status_inventory_and_notices():
    env = meadow()
    env.simulator.player.inventory.update(food=3, energy=5, wood=2, stone_pickaxe=1)
    observation, state = look(env)
    assert "Status: health 9/9, food 3/9, drink 9/9, energy 5/9\n" in observation
    assert observation.endswith("Inventory: wood 2, stone pickaxe 1")
    assert state["status"] == {"health": 9, "food": 3, "drink": 9, "energy": 5}
    assert state["inventory"] == {"wood": 2, "stone_pickaxe": 1}
    observation, *_, info = env.step("Sleep")
    assert observation.startswith("You are asleep")
    assert info["state"]["sleeping"] is True
    env.simulator.player.health = 0
    observation, _, terminated, _, info = env.step("Noop")
    assert observation.startswith("You are dead.\nPosition")
    assert (terminated, info["state"]["dead"]) == (True, True)


def test_state_is_json_and_position_can_be_left_out():
    env = made(area=32)
    for *_, info in played(env, 60, 8):
        assert json.loads(json.dumps(info)) == info
    observation, info = envs.make("crafter", area=16, position=False).reset(seed=1)
    assert "Position" not in observation
    assert "position" not in info["state"]
    assert "Positions" not in envs.make("crafter", position=False).instructions


# Rules


def after(env, action, inventory):
    """Inventory and achievements after one action with nothing else in the bag."""
    player = env.simulator.player
    player.inventory.update(dict.fromkeys(player.inventory, 0) | {"health": 9, "food": 9, "drink": 9, "energy": 9})
    player.inventory.update(inventory)
    player.achievements = dict.fromkeys(player.achievements, 0)
    player.facing = (0, -1)
    state = env.step(action)[-1]["state"]
    return state["inventory"], state["achievements"]


@pytest.mark.parametrize("name", constants.make)
def test_making_costs_what_the_rules_say(name):
    env = meadow()
    rule = constants.make[name]
    action = f"Make {name.replace('_', ' ').title()}"
    cost = ", ".join(f"{count} {item}" for item, count in rule["uses"].items())
    assert f"{cost}, near a {' and a '.join(rule['nearby'])}." in env.instructions
    assert after(env, action, rule["uses"]) == (rule["uses"], []), "no table"
    for far, near in zip(rule["nearby"], [(1, 1), (-1, 1)], strict=False):
        put(env, 2 * near[0], 0, far)
    assert after(env, action, rule["uses"]) == (rule["uses"], []), "too far away"
    for util, near in zip(rule["nearby"], [(1, 1), (-1, 1)], strict=False):
        put(env, *near, util)
    for item in rule["uses"]:
        assert after(env, action, {k: v for k, v in rule["uses"].items() if k != item})[1] == []
    assert after(env, action, rule["uses"]) == ({name: 1}, [f"make_{name}"])


@pytest.mark.parametrize("name", constants.place)
def test_placing_costs_what_the_rules_say(name):
    env = meadow()
    rule = constants.place[name]
    action = f"Place {name.title()}"
    for ground in constants.materials:
        put(env, 0, -1, ground)
        left, unlocked = after(env, action, rule["uses"])
        allowed = ground in rule["where"]
        assert unlocked == [f"place_{name}"] * allowed
        assert left == ({} if allowed else rule["uses"])
    put(env, 0, -1, "grass")
    assert after(env, action, {item: count - 1 for item, count in rule["uses"].items()})[1] == []


@pytest.mark.parametrize("ground", [name for name in constants.collect if name not in ("grass", "water")])
def test_collecting_needs_the_tool(ground):
    env = meadow()
    rule = constants.collect[ground]
    item = next(iter(rule["receive"]))
    put(env, 0, -1, ground)
    if rule["require"]:
        assert after(env, "Do", {}) == ({}, [])
    assert after(env, "Do", rule["require"]) == ({item: 1} | rule["require"], [f"collect_{item}"])


def test_the_text_of_the_rules_is_short_and_names_everything():
    env = envs.make("crafter")
    text = env.instructions
    assert len([word for word in text.split() if word != "-"]) <= 350
    for name in (*env.actions, *(a.replace("_", " ").title() for a in constants.achievements)):
        assert name in text
    assert len(constants.achievements) == 22
    assert "grass gives a sapling 10 % of the time" in text


# Contract


def test_action_names():
    env = envs.make("crafter")
    assert env.actions[:7] == ("Noop", "Move West", "Move East", "Move North", "Move South", "Do", "Sleep")
    assert env.actions[7:11] == ("Place Stone", "Place Table", "Place Furnace", "Place Plant")
    assert len(env.actions) == 17
    assert env.default_action == "Noop"
    assert env.find_action("make_wood_pickaxe") == "Make Wood Pickaxe"


@pytest.mark.parametrize("action", ["Fly", "", "move west"])
def test_an_invalid_action_is_refused(action):
    lost, waiting = made(area=24), made(area=24)
    with pytest.raises(ValueError, match="crafter has no action"):
        lost.step(action)
    assert lost.step("Noop") == waiting.step("Noop")


def test_progress_and_reward():
    env = meadow()
    put(env, 0, 1, "tree")
    _, reward, _, _, info = env.step("Do")
    assert info["progress"] == pytest.approx(1 / 22)
    assert reward == 1.0
    env.simulator.player.health = 7
    _, reward, terminated, truncated, info = env.step("Place Table")
    assert info["progress"] == pytest.approx(1 / 22)
    assert (reward, terminated, truncated) == (0.0, False, False)


def test_length_truncates():
    env = meadow(length=3)
    assert env.max_steps == 3
    assert [env.step("Noop")[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_death_ends_the_episode():
    env = meadow()
    put(env, 0, 1, "lava")
    _, reward, terminated, truncated, _ = env.step("Move South")
    assert (reward, terminated, truncated) == (pytest.approx(-0.9), True, False)


def test_a_wrong_option_answers_with_the_nearest():
    with pytest.raises(UsageError) as wrong:
        envs.make("crafter", lenght=10)
    assert wrong.value.hint == "did you mean 'length'?"
    with pytest.raises(UsageError, match="no task 'easy'"):
        envs.make("crafter", "easy")


@pytest.mark.parametrize(
    "option",
    [{"length": 0}, {"length": "9"}, {"area": 8}, {"size": True}, {"position": 1}, {"render_mode": "human"}],
)
def test_a_wrong_value_is_refused(option):
    with pytest.raises(UsageError, match=next(iter(option))):
        envs.make("crafter", **option)
