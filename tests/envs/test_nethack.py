"""NetHack as text: contract, observation, facts, actions, progress, determinism."""

import importlib
import importlib.util
import json
import random
import re
import statistics
import subprocess
import sys
import time

import pytest

from automem import env as envs
from automem import plugins
from automem.errors import UsageError
from automem.play.env_check import check_env, play_digest

if importlib.util.find_spec("nle") is None:
    pytest.skip("needs the package nle: pip install 'automem[envs]'", allow_module_level=True)

nethack = plugins.load_module(plugins.find(plugins.ENV, "nethack"))
text = importlib.import_module(f"{nethack.__name__}.text")
facts = importlib.import_module(f"{nethack.__name__}.facts")
score = importlib.import_module(f"{nethack.__name__}.score")


@pytest.fixture(scope="module")
def game():
    """One environment for all tests here, as a run uses it: every test resets it."""
    env = envs.make("nethack")
    yield env
    env.close()


def part(observation, title):
    """A part of the observation."""
    titles = "message|language observation|cursor|map|inventory"
    found = re.search(rf"^{title}:(.*?)(?=\n\n(?:{titles}):|\Z)", observation, re.MULTILINE | re.DOTALL)
    return found[1].removeprefix("\n")


def wander(env, seed, steps, actions=None):
    """Random play: all that it told."""
    draw = random.Random(seed)
    told = [env.reset(seed=seed)]
    for _ in range(steps):
        told.append(env.step(draw.choice(actions or env.actions)))
        if told[-1][2]:
            break
    return told


MOVES = ("north", "east", "south", "west", "far east", "far west", "search", "esc")


# Determinism


def test_a_second_reset_with_the_same_seed_is_the_same_game(game):
    first = wander(game, 7, 120)
    assert wander(game, 8, 20) != first[:21]
    assert wander(game, 7, 120) == first


def test_without_a_seed_the_next_game_follows_from_the_last_seed(game):
    first = game.reset(seed=3)
    unseeded = game.reset()
    assert unseeded != first
    assert game.reset(seed=3) == first
    assert game.reset() == unseeded


def test_another_process_plays_the_same_game():
    code = "from automem.play.env_check import play_digest; print(play_digest('nethack', 'default', 42, 80))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == play_digest("nethack", "default", 42, 80)


def test_games_side_by_side_do_not_meet(game):
    alone = wander(game, 5, 60)
    other = envs.make("nethack")
    draw, told = random.Random(5), [game.reset(seed=5)]
    other.reset(seed=6)
    for _ in range(60):
        other.step("search")
        told.append(game.step(draw.choice(game.actions)))
    other.close()
    assert told == alone


@pytest.mark.slow
def test_it_keeps_the_contract():
    reports = check_env("nethack", 100)
    assert [report for report in reports if report.ok is False] == []
    assert len(reports) == 6


# Observation


def test_the_first_observation(game):
    observation, info = game.reset(seed=42)
    state = info["state"]
    assert part(observation, "message") == state["message"]
    rows = part(observation, "map").split("\n")
    level, x, y = state["position"]
    assert level == 1
    assert rows[y - 1][x] == "@"
    assert part(observation, "cursor").endswith(f"(x={x}, y={y})")
    assert part(observation, "cursor").startswith("Yourself a ")
    assert rows[-1].startswith("Dlvl:1 ")
    assert f"HP:{state['hp']}({state['max_hp']})" in rows[-1]
    carried = part(observation, "inventory").split("\n")
    assert carried == [f"{letter}: {thing}" for letter, thing in state["inventory"].items()]


def test_a_turn_alone_does_not_change_the_text(game):
    told = wander(game, 11, 300, ("search",))
    texts, turns = {each[0] for each in told}, {each[-1]["state"]["turn"] for each in told}
    assert len(turns) > 200
    assert len(texts) < len(turns) / 2
    assert not any(" T:" in observation for observation in texts)
    clocked = envs.make("nethack", clock=True)
    assert " T:1\n" in clocked.reset(seed=11)[0]
    clocked.close()


def test_wordings_change_the_description_and_nothing_else():
    told = {}
    for wording in ("words", "published", "steps"):
        env = envs.make("nethack", wording=wording)
        told[wording] = [each[0] for each in wander(env, 4, 150, MOVES)]
        env.close()
    for plain, published, steps in zip(*told.values(), strict=True):
        for title in ("message", "map", "inventory"):
            assert part(plain, title) == part(published, title) == part(steps, title)
        assert part(published, "language observation") == reworded(part(plain, "language observation"))
    assert any("1 step away (directly reachable) north" in published for published in told["published"])
    assert any("6-19 steps away" in steps for steps in told["steps"])


def reworded(seen):
    """The description with the published distances, by replacing words: what must not be done to messages."""
    phrases = sorted(text.WORDINGS["published"].items(), key=lambda item: -len(item[0]))
    for word, phrase in phrases:
        lines = (line if "away" in line else line.replace(f" {word} ", f" {phrase} ") for line in seen.split("\n"))
        seen = "\n".join(lines)
    for first in ("north", "south", "east", "west"):
        for second in ("northeast", "northwest", "southeast", "southwest"):
            seen = seen.replace(first + second, f"{first}-{second}")
    return seen


def test_messages_keep_their_words(game):
    screen = game._game.begin(4)
    changed = facts.Screen(**{**vars(screen), "message": "You are far from home.  It is very near."})
    parts = text.sections(changed, "published", clock=False)
    assert parts["message"] == "You are far from home.  It is very near."


def test_the_text_takes_less_than_a_millisecond(game):
    game.reset(seed=42)
    draw, seconds = random.Random(1), []
    for _ in range(300):
        screen = game._game.press(game.rules.actions[draw.choice(MOVES)]).screen
        began = time.thread_time()
        text.join(text.sections(screen, "published", clock=False))
        seconds.append(time.thread_time() - began)
    assert statistics.median(seconds) < 0.001


# Facts


def test_facts_agree_with_the_map(game):
    sides = facts.SIDES
    for observation, *_, info in wander(game, 21, 200, MOVES):
        state = info["state"]
        assert json.loads(json.dumps(info)) == info
        if state["prompt"]:
            continue
        rows = [row.ljust(80) for row in part(observation, "map").split("\n")]
        _, x, y = state["position"]
        for side, tile in state["adjacent"].items():
            dx, dy = sides[side]
            char = rows[y - 1 + dy][x + dx] if y + dy > 0 else " "
            if tile["kind"] in CHARS:
                assert char in CHARS[tile["kind"]], (side, tile, char)
        for thing in (*state["stairs"], *state["doors"]):
            tx, ty = thing["position"]
            char = rows[ty - 1][tx]
            assert char in CHARS[thing["kind"]] or char not in " .", (thing, char)


CHARS = {
    "wall": "-|",
    "floor": ".",
    "corridor": "#",
    "unknown": " ",
    "closed door": "+",
    "open door": "-|",
    "doorway": ".",
    "stairs up": "<",
    "stairs down": ">",
}


def test_stairs_are_remembered_under_the_player(game):
    _, info = game.reset(seed=42)
    assert (info["state"]["here"], info["state"]["stairs"]) == (None, [])
    start = info["state"]["position"]
    _, *_, info = game.step("north")
    assert info["state"]["stairs"] == [{"kind": "stairs up", "position": start[1:]}]
    _, *_, info = game.step("south")
    assert info["state"]["position"] == start
    assert info["state"]["here"] == "stairs up"


def test_prompts_are_told_by_kind(game):
    game.reset(seed=42)
    asked = {}
    for action in ("kick", "esc", "eat", "esc", "up", "n", "call", "esc", "20", "search", "inventory", "esc"):
        _, *_, info = game.step(action)
        asked[action] = info["state"]["prompt"]
    assert asked["kick"] == "direction"
    assert asked["eat"] == "item"
    assert asked["up"] == "yes/no"
    assert asked["inventory"] in ("menu", None)
    assert asked["esc"] is None
    assert asked["search"] is None


def test_answers_reach_the_game(game):
    game.reset(seed=42)
    game.step("kick")
    observation, *_, info = game.step("north")
    assert "You kick" in part(observation, "message")
    turn = info["state"]["turn"]
    game.step("20")
    assert game.step("search")[-1]["state"]["turn"] == turn + 20
    observation, *_ = game.step("inventory")
    assert "Weapons" in observation
    game.step("esc")
    observation, *_, info = game.step("eat")
    assert "What do you want to eat? [d or ?*]" in observation
    observation, *_, info = game.step("d")
    assert info["state"]["prompt"] is None


def test_pages_are_joined(game):
    for observation, *_ in wander(game, 2, 300):
        assert "--More--" not in part(observation, "message")


# Actions


def test_the_actions_are_the_published_ones(game):
    assert game.actions[:9] == (*nethack.keys.COMPASS, "far north")
    assert game.default_action == "esc"
    for name in ("down", "more", "esc", "space", "turnundead", "pray", "seegold", "a", "Z", "0", "9", "10", "99"):
        assert name in game.actions
    for name in ("travel", "quit", "save", "teleport", "00", "overview"):
        assert name not in game.actions
    assert len(set(game.actions)) == len(game.actions)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("north", "north"),
        (" Far_East ", "far east"),
        ("far north-east", "far northeast"),
        ("ESC", "esc"),
        ("a", "a"),
        ("A", "A"),
        ("yes", "y"),
        ("no", "n"),
        (">", "down"),
        (",", "pickup"),
        ("$", "seegold"),
        ("enter", "more"),
        (" ", "space"),
        ("dance", None),
        ("", None),
        ("é", None),
    ],
)
def test_actions_are_found(game, said, meant):
    assert game.find_action(said) == meant


def test_an_action_that_there_is_not_is_refused(game):
    game.reset(seed=9)
    with pytest.raises(ValueError, match="no action 'dance'"):
        game.step("dance")


# Progress and ends


@pytest.mark.parametrize(
    ("dlvl", "xl", "progress"),
    [(1, 1, 0), (2, 1, 0.01539), (1, 2, 0.01848), (10, 5, 0.12559), (4, 5, 0.02911), (99, 1, 0)],
)
def test_milestones(dlvl, xl, progress):
    assert score.milestone(dlvl, xl) == pytest.approx(progress, abs=1e-5)


def test_the_table_rises():
    table = score._table()
    for kind, last in (("dlvl", 50), ("xl", 30)):
        values = [table[kind, number] for number in range(1, last + 1)]
        assert values == sorted(values)
        assert values[0] == 0 < values[-1] < 1


def test_the_end_shows_the_last_map(game):
    last, _ = game.reset(seed=42)
    game.step("up")
    observation, _, terminated, truncated, info = game.step("y")
    assert (terminated, truncated) == (True, False)
    assert info["state"]["over"] == "escaped"
    assert part(observation, "message").endswith("The game is over: escaped.")
    assert part(observation, "map") == part(last, "map")
    assert info["state"]["hp"] > 0


def test_the_end_is_the_same_whatever_was_played_before(game):
    ends = []
    for _ in range(2):
        game.reset(seed=42)
        game.step("up")
        ends.append(game.step("y"))
    assert ends[0] == ends[1]


def test_steps_without_a_turn_end_the_episode():
    env = envs.make("nethack", patience=5)
    env.reset(seed=1)
    assert [env.step("esc")[3] for _ in range(5)] == [False, False, False, False, True]
    env.reset(seed=1)
    for _ in range(4):
        env.step("esc")
    assert not env.step("search")[3]
    assert not env.step("esc")[3]
    env.close()


def test_length_truncates():
    env = envs.make("nethack", length=3)
    assert env.max_steps == 3
    env.reset(seed=1)
    assert [env.step("search")[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    env.close()


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"lenght": 3}, "no option 'lenght'"),
        ({"length": 0}, "length must be at least 1"),
        ({"length": True}, "length must be a whole number"),
        ({"clock": 1}, "clock must be true or false"),
        ({"wording": "metric"}, "wording must be one of words, published, steps"),
        ({"character": 3}, "character must be a text"),
    ],
)
def test_a_wrong_option_is_refused(option, told):
    with pytest.raises(UsageError, match=told):
        envs.make("nethack", **option)


def test_the_instructions_are_short(game):
    assert len(game.instructions.split()) < 480
    assert "150 steps" in game.instructions
