"""Courier: rules on constructed worlds, determinism, length of what is seen, floor and ceiling."""

import hashlib
import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from gymnasium.utils.env_checker import check_env

from automem import plugins
from automem.env import make, random_actions
from automem.errors import UsageError

COURIER = plugins.load_module(plugins.find(plugins.ENV, "courier"))
TASKS = COURIER.TASKS


def part(name):
    return importlib.import_module(f"{COURIER.__name__}.{name}")


def still(**options):
    """A world in which nobody else moves anything."""
    env = make("courier", "small", move_rate=0.0, **options)
    env.reset(seed=3)
    return env


def place_of(world, room):
    return next(place for place, name in world.rooms.items() if name == room)


def text_state(text):
    """The facts of an observation, read back from its words alone."""
    lines = [line.removesuffix(".") for line in text.splitlines()]
    said = dict(line.split(": ", 1) for line in lines if ": " in line)
    room, rest = said["Room"].split(" at ")
    place, grid = rest.split(" in a grid of ")
    parcel, to = said["Order"].split(" to ") if said["Order"] != "none" else (None, None)
    news = said["News"].removeprefix("the ").split(" is now in ") if "News" in said else None
    return {
        "position": [int(n) for n in place.split(",")],
        "room": room,
        "grid": [int(n) for n in grid.split(" by ")],
        "carrying": None if said["Carrying"] == "nothing" else said["Carrying"],
        "order": {"parcel": parcel, "room": to} if parcel else None,
        "parcels_here": [] if said["Here"] == "nothing" else said["Here"].split(", "),
        "news": {"parcel": news[0], "position": [int(n) for n in news[1].split(",")]} if news else None,
    }


def play(env, seed, actions):
    """Every (observation, reward, terminated, truncated, info) until the episode is over."""
    text, info = env.reset(seed=seed)
    frames = [(text, 0.0, False, False, info)]
    for action in actions:
        frames.append(env.step(action))
        if frames[-1][2] or frames[-1][3]:
            break
    return frames


def test_first_task_is_the_default_and_options_replace_parameters():
    assert make("courier").max_steps == make("courier", "small").max_steps == 200
    env = make("courier", "small", width=2, height=2, horizon=7, parcels=2, orders=1, news_rate=1)
    assert env.max_steps == 7
    assert "2 by 2 rooms" in env.instructions
    assert "1 deliveries as you can in 7 steps" in env.instructions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"widht": 4}, "no option 'widht'"),
        ({"width": "4"}, "must be a whole number"),
        ({"orders": True}, "must be a whole number"),
        ({"move_rate": 1.5}, "0 to 1"),
        ({"width": 5, "height": 5}, "must be even"),
        ({"height": 10}, "2 to 9"),
        ({"parcels": 73}, "2 to 72"),
        ({"parcels": 1}, "2 to 72"),
        ({"width": 2, "height": 2, "parcels": 24}, "fewer than 6 times"),
        ({"horizon": 0}, "positive"),
    ],
)
def test_bad_options_are_refused_by_name(options, words):
    with pytest.raises(UsageError, match=words):
        make("courier", **options)


def test_a_wrong_option_is_answered_with_the_nearest():
    with pytest.raises(UsageError) as caught:
        make("courier", widht=4)
    assert caught.value.hint == "did you mean 'width'?"


def test_names_suffice_and_no_word_means_two_things():
    names = part("names")
    assert len(set(names.ROOMS)) == len(set(names.PARCELS)) == 72
    words = {word for parcel in names.PARCELS for word in parcel.split()}
    assert not words & set(names.ROOMS)
    for env in (make("courier", task) for task in TASKS):
        assert env.task.width * env.task.height <= 72


def test_gymnasium_accepts_it():
    check_env(make("courier"), skip_render_check=True)


def test_reset_without_a_seed_draws_a_new_game_from_np_random():
    env = make("courier")
    env.reset(seed=5)
    first = env.reset()[1]["state"], env.reset()[1]["state"]
    env.reset(seed=5)
    assert first == (env.reset()[1]["state"], env.reset()[1]["state"])
    assert first[0] != first[1]


def test_an_unknown_action_is_a_mistake_of_the_caller():
    env = still()
    with pytest.raises(ValueError, match="no action 'jump'; actions: north"):
        env.step("jump")


def test_directions_change_the_coordinates_and_the_edge_of_the_grid_says_so():
    env = still()
    world = env.world
    world.position = (1, 1)
    seen = [env.step(action)[4]["state"]["position"] for action in ("north", "east", "south", "west")]
    assert seen == [[1, 2], [2, 2], [2, 1], [1, 1]]
    for direction, edge in {"north": (0, 3), "south": (0, 0), "east": (5, 0), "west": (0, 0)}.items():
        world.position = edge
        text, reward, _, _, info = env.step(direction)
        assert text.splitlines()[-1] == f"There is no way {direction}."
        assert (info["state"]["position"], reward) == (list(edge), 0.0)


def test_take_and_deliver_follow_the_order():
    env = still()
    world = env.world
    parcel, room = world.orders[0].parcel, world.orders[0].room
    destination = place_of(world, room)
    elsewhere = (0, 0) if destination != (0, 0) else (1, 0)
    world.parcels[parcel] = destination
    world.position = elsewhere

    def last_line(action):
        return env.step(action)[0].splitlines()[-1]

    assert last_line("take") == f"The {parcel} is not here."
    assert last_line("deliver") == "You carry nothing."
    world.parcels[parcel] = elsewhere
    text, _, _, _, info = env.step("take")
    assert f"Carrying: {parcel}." in text
    assert parcel not in info["state"]["parcels_here"]
    assert last_line("take") == f"You already carry the {parcel}."
    assert last_line("deliver") == f"This is not the {room}."
    world.position = destination
    text, reward, _, _, info = env.step("deliver")
    assert (reward, info["progress"], info["state"]["deliveries"]) == (1.0, 1 / 20, 1)
    assert parcel in info["state"]["parcels_here"]
    assert f"Order: {world.orders[1].parcel} to {world.orders[1].room}." in text
    assert "Carrying: nothing." in text


def test_take_leaves_other_parcels_alone():
    env = still()
    world = env.world
    wanted = world.orders[0].parcel
    other = next(parcel for parcel in world.parcels if parcel != wanted)
    world.parcels[wanted], world.parcels[other] = (0, 0), (1, 0)
    world.position = (1, 0)
    state = env.step("take")[4]["state"]
    assert state["carrying"] is None
    assert other in state["parcels_here"]


def test_the_episode_terminates_with_the_last_order():
    env = still(orders=1)
    world = env.world
    world.parcels[world.orders[0].parcel] = world.position = place_of(world, world.orders[0].room)
    env.step("take")
    text, reward, terminated, truncated, info = env.step("deliver")
    assert (reward, terminated, truncated, info["progress"]) == (1.0, True, False, 1.0)
    assert "Order: none." in text
    assert info["state"]["order"] is None


def test_the_episode_is_truncated_at_the_horizon():
    env = still(horizon=3)
    assert [env.step("wait")[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_orders_vary_and_are_the_same_whatever_the_courier_does():
    one, other = make("courier", "long"), make("courier", "long")
    play(one, 4, random_actions(one, 1, 200))
    play(other, 4, ["wait"] * 200)
    orders = one.world.orders
    assert orders == other.world.orders
    assert len(orders) == 90
    for before, after in pairwise(orders):
        assert before.parcel != after.parcel
        assert before.room != after.room


def test_a_full_shelf_sends_a_parcel_to_the_next_room():
    world = still().world
    parcels = list(world.parcels)
    for parcel in parcels:
        world.parcels[parcel] = (0, 0)
    for parcel in parcels[:7]:
        world.parcels[parcel] = None
    assert [world.put(parcel, (5, 3)) for parcel in parcels[:6]] == [(5, 3)] * 6
    world.parcels[parcels[11]] = None
    world.parcels[parcels[10]] = (0, 0)
    assert world.put(parcels[6], (5, 3)) == (0, 0), "the last room is followed by the first"
    assert world.put(parcels[11], (5, 3)) == (0, 0)


def test_a_shelf_never_holds_more_than_six():
    env = make("courier", "small", width=2, height=2, parcels=23, move_rate=1.0, orders=100)
    env.reset(seed=0)
    for action in random_actions(env, 0, 150):
        env.step(action)
        lying = [place for place in env.world.parcels.values() if place]
        assert max(map(lying.count, lying)) <= 6


@pytest.mark.parametrize("told", [0.0, 1.0])
def test_others_move_parcels_out_of_sight_and_the_news_are_true(told):
    env = make("courier", "small", move_rate=1.0, news_rate=told)
    env.reset(seed=8)
    moves = news = 0
    for action in random_actions(env, 2, 150):
        carried, before = env.world.carrying, dict(env.world.parcels)
        _, _, _, _, info = env.step(action)
        here, after = env.world.position, env.world.parcels
        moved = [name for name in after if after[name] != before[name] and name != carried]
        moved = [name for name in moved if after[name] is not None]
        assert len(moved) <= 1
        assert all(before[name] != here for name in moved), "nothing is moved under the courier's eyes"
        moves += len(moved)
        if info["state"]["news"]:
            news += 1
            assert info["state"]["news"] == {"parcel": moved[0], "position": list(after[moved[0]])}
    assert moves > 80
    assert news == (moves if told else 0)


def test_the_same_moves_meet_a_courier_who_acts_otherwise():
    def news(actions):
        frames = play(make("courier"), 6, actions)
        return [frame[4]["state"]["news"] for frame in frames]

    waiting, pacing = news(["wait"] * 200), news(["east", "west"] * 100)
    both = [pair for pair in zip(waiting, pacing, strict=True) if all(pair)]
    assert len(both) > 15
    assert sum(one == other for one, other in both) == len(both)


def test_news_come_once_and_the_same_situation_is_the_same_text():
    env = make("courier")
    env.reset(seed=2)
    while not env.step("wait")[4]["state"]["news"]:
        pass
    env.world.task = replace(env.world.task, move_rate=0.0)
    quiet = env.step("wait")[0]
    assert "News" not in quiet
    assert env.step("wait")[0] == quiet
    env.world.position = (0, 0)
    assert env.step("south")[0] == env.step("south")[0] != quiet


@pytest.mark.parametrize("task", TASKS)
def test_every_observation_is_short_and_says_what_the_state_says(task):
    env = make("courier", task)
    progress = 0.0
    omniscient = part("bounds").omniscient
    random = random_actions(env, 1, 1_500)
    text, info = env.reset(seed=11)
    for number, action in enumerate(random):
        assert len(text.split()) <= 60
        state = info["state"]
        assert {key: value for key, value in state.items() if key != "deliveries"} == text_state(text)
        assert json.loads(json.dumps(state)) == state
        assert info["progress"] >= progress
        progress = info["progress"]
        text, _, over, cut, info = env.step(action if number % 3 == 0 else omniscient(env.world))
        if over or cut:
            break
    assert progress > 0


def test_the_longest_possible_observation_has_at_most_60_words():
    env = still()
    world = env.world
    order = world.orders[0]
    others = [parcel for parcel in world.parcels if parcel != order.parcel]
    world.position = next(place for place, name in world.rooms.items() if name != order.room)
    world.parcels |= dict.fromkeys(others[:6], world.position)
    world.parcels[order.parcel] = None
    world.notice = f"You already carry the {order.parcel}."
    world.news = part("world").News(others[6], (0, 0))
    text = part("text").observation(world)
    assert text.count("\n") == 5
    assert len(text.split()) <= 60


PLAY = """
import hashlib
from automem.env import make, random_actions
digest = hashlib.sha256()
for task in ("small", "long", "huge"):
    env = make("courier", task)
    digest.update(repr(env.reset(seed=17)).encode())
    for action in random_actions(env, 3, 150):
        digest.update(repr(env.step(action)).encode())
print(digest.hexdigest())
"""


def test_the_same_seed_is_the_same_episode_in_any_process():
    def digest(hash_seed):
        ran = subprocess.run(
            [sys.executable, "-c", PLAY],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=plugins.PACKAGE.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.strip()

    here = hashlib.sha256()
    for task in ("small", "long", "huge"):
        env = make("courier", task)
        here.update(repr(env.reset(seed=17)).encode())
        for action in random_actions(env, 3, 150):
            here.update(repr(env.step(action)).encode())
    assert digest("1") == digest("2") == here.hexdigest()


def test_another_seed_is_another_game():
    env = make("courier")
    assert len({env.reset(seed=seed)[0] for seed in range(30)}) > 25


def test_two_games_at_once_do_not_touch_each_other():
    one, other = make("courier"), make("courier")
    actions = random_actions(one, 5, 100)
    alone = [frame[0] for frame in play(one, 1, actions)]
    one.reset(seed=1)
    other.reset(seed=2)
    together = []
    for action in actions:
        together.append(one.step(action)[0])
        other.step("wait")
    assert together == alone[1:]


@pytest.mark.parametrize(("task", "seeds"), [("small", range(20)), ("long", range(20)), ("huge", range(2))])
def test_floor_and_ceiling(task, seeds):
    assert COURIER.floor(task, 0) == 0.0
    assert [COURIER.ceiling(task, seed) for seed in seeds] == [1.0] * len(seeds)


def test_the_omniscient_courier_waits_when_all_is_done():
    env = still(orders=1)
    omniscient = part("bounds").omniscient
    while env.world.order:
        env.step(omniscient(env.world))
    assert omniscient(env.world) == "wait"


def test_a_step_is_fast_and_stays_so():
    env = make("courier", "huge")
    env.reset(seed=0)
    actions = random_actions(env, 0, 10_000)
    thirds = []
    for begin in (0, 3_333, 6_666):
        start = time.process_time()
        for action in actions[begin : begin + 3_333]:
            env.step(action)
        thirds.append((time.process_time() - start) / 3_333)
    assert min(thirds) < 50e-6
    assert thirds[2] < 3 * thirds[0]
