"""MiniHack as text: tasks, options, goals, Boxoban with levels from a folder."""

import asyncio
import importlib
import importlib.util
import random
import subprocess
import sys

import pytest

from automem import env as envs
from automem import plugins
from automem.agent.agent import Agent
from automem.episode import EpisodeSpec
from automem.errors import UsageError
from automem.models.scripted import make as make_scripted
from automem.play.env_check import _check_task, check_env, play_digest
from automem.scaffold.spec import load

if importlib.util.find_spec("minihack") is None:
    pytest.skip("needs the package minihack: pip install 'automem[envs]'", allow_module_level=True)

minihack = plugins.load_module(plugins.find(plugins.ENV, "minihack"))
boxoban = importlib.import_module(f"{minihack.__name__}.boxoban")

WITHOUT_LEVELS = [task for task in minihack.TASKS if not task.startswith("boxoban")]
COMPASS = ("north", "east", "south", "west", "northeast", "southeast", "southwest", "northwest")

LEVELS = """\
; 0
##########
#@$.     #
#        #
##########

; 1
##########
#        #
#    .$@ #
##########
"""


@pytest.fixture
def levels(tmp_path):
    """A folder of levels of our making, in the layout of the public data set."""
    for folder in ("hard", "medium/train"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "000.txt").write_text(LEVELS)
    return str(tmp_path)


@pytest.fixture
def make():
    """Makes environments and ends them."""
    made = []

    def new(task, **options):
        made.append(envs.make("minihack", task, **options))
        return made[-1]

    yield new
    for env in made:
        env.close()


def wander(env, seed, steps):
    """Random play up to the end: all that it told."""
    draw, told = random.Random(seed), [env.reset(seed=seed)]
    for _ in range(steps):
        told.append(env.step(draw.choice(env.actions)))
        if told[-1][2]:
            break
    return told


def test_the_tasks_are_the_published_ones():
    assert sorted(minihack.TASKS) == [
        *("boxoban-hard", "boxoban-medium", "corridor-r3", "corridorbattle-dark"),
        *("mazewalk-15x15", "mazewalk-9x9", "quest-easy", "quest-medium"),
    ]


@pytest.mark.parametrize(
    ("task", "actions"),
    [
        ("mazewalk-9x9", COMPASS),
        ("corridor-r3", (*COMPASS, "open", "kick", "search")),
        ("corridorbattle-dark", COMPASS),
    ],
)
def test_actions_of_small_tasks(make, task, actions):
    env = make(task)
    assert env.actions == actions
    assert env.default_action == "north"
    assert env.max_steps == 100


def test_actions_of_quests(make):
    plain, lettered = make("quest-easy"), make("quest-easy", letters=True)
    assert len(plain.actions) == 32
    assert set(plain.actions) == minihack.ACTIONS - {"up"}
    assert set(lettered.actions) - set(plain.actions) >= {"f", "g"}
    assert plain.find_action("yes") == "northwest"
    assert lettered.find_action("yes") == "y"


@pytest.mark.parametrize("task", WITHOUT_LEVELS)
def test_a_second_reset_with_the_same_seed_is_the_same_game(make, task):
    env = make(task)
    first = wander(env, 3, 40)
    assert wander(env, 4, 5) != first[:6]
    assert wander(env, 3, 40) == first


def test_the_goal_ends_the_episode_with_progress_1(make):
    env = make("mazewalk-9x9")
    _, info = env.reset(seed=47)
    assert info["progress"] == 0
    env.step("north")
    observation, reward, terminated, truncated, info = env.step("north")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["progress"] == 1
    assert info["state"]["over"] == "won"
    assert "The game is over: won." in observation
    assert env.reset(seed=47)[1]["progress"] == 0


def test_length_truncates_and_idle_steps_cost(make):
    env = make("mazewalk-9x9", length=3)
    env.reset(seed=42)
    assert [env.step("north")[1:4] for _ in range(3)] == [
        (-0.01, False, False),
        (-0.01, False, False),
        (-0.01, False, True),
    ]


def test_autopickup_can_be_turned_off(make):
    assert "wand" in str(make("quest-easy").reset(seed=42)[1]["state"]["inventory"])
    assert "wand" not in str(make("quest-easy", autopickup=False).reset(seed=42)[1]["state"]["inventory"])


def test_an_item_can_be_named_where_letters_are_actions(make):
    env = make("quest-easy", letters=True)
    env.reset(seed=42)
    observation, *_, info = env.step("zap")
    assert info["state"]["prompt"] == "item"
    assert "What do you want to zap? [g or ?*]" in observation
    assert env.step("g")[-1]["state"]["prompt"] == "direction"
    env.step("east")
    env.step("far east")
    assert "}" not in env.step("east")[0].split("map:")[1].split("Agent")[0].split("\n")[8], "the lava is frozen"


def test_positions_have_no_level(make):
    env = make("corridor-r3")
    observation, info = env.reset(seed=42)
    assert f"(x={info['state']['position'][0]}, y={info['state']['position'][1]})" in observation


# Boxoban


def test_boxoban_without_levels_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv(boxoban.VARIABLE, raising=False)
    with pytest.raises(UsageError, match="needs a folder with levels") as missing:
        envs.make("minihack", "boxoban-hard")
    assert "git clone" in missing.value.hint
    with pytest.raises(UsageError, match=f"no levels .* in '{tmp_path}/medium/train'"):
        envs.make("minihack", "boxoban-medium", levels=str(tmp_path))
    reports = [report for report in check_env_of_boxoban() if report.ok is None]
    assert len(reports) == 2
    assert "git clone" in reports[0].what


def check_env_of_boxoban():
    """What the check says of tasks that cannot be made."""
    return [report for task in ("boxoban-hard", "boxoban-medium") for report in _check_task("minihack", task, 1)]


def test_boxoban_is_played_and_won(make, levels, monkeypatch):
    monkeypatch.setenv(boxoban.VARIABLE, levels)
    for task in ("boxoban-hard", "boxoban-medium"):
        env = make(task)
        assert env.actions == COMPASS[:4]
        seen = {}
        for seed in range(8):
            observation, _ = env.reset(seed=seed)
            seen["@`{" in observation] = seed
            push = "east" if "@`{" in observation else "west"
            observation, reward, terminated, _, info = env.step(push)
            assert (reward, terminated, info["progress"]) == (1, True, 1)
        assert set(seen) == {True, False}, "both levels are drawn"


def test_the_seed_alone_draws_the_level(make, levels):
    env = make("boxoban-hard", levels=levels)
    first = [env.reset(seed=seed)[0] for seed in range(6)]
    random.seed(1)
    assert [env.reset(seed=seed)[0] for seed in range(6)] == first


# Contract


@pytest.mark.slow
def test_it_keeps_the_contract(levels, monkeypatch):
    monkeypatch.setenv(boxoban.VARIABLE, levels)
    reports = check_env("minihack", 40)
    assert [report for report in reports if report.ok is False] == []
    assert len(reports) == 48


def test_another_process_plays_the_same_game(make):
    code = "from automem.play.env_check import play_digest; print(play_digest('minihack', 'corridor-r3', 42, 40))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == play_digest("minihack", "corridor-r3", 42, 40)


@pytest.mark.parametrize("task", WITHOUT_LEVELS)
def test_levels_are_for_boxoban_alone(task, levels):
    with pytest.raises(UsageError, match=f"levels has no meaning for {task}, only for boxoban-") as refused:
        envs.make("minihack", task, levels=levels)
    assert boxoban.VARIABLE in refused.value.hint


def test_wrong_options_and_tasks_are_refused():
    with pytest.raises(UsageError, match="no option 'autopick'"):
        envs.make("minihack", "corridor-r3", autopick=True)
    with pytest.raises(UsageError, match="no task 'corridor'"):
        envs.make("minihack", "corridor")


def test_the_explorer_solves_levels_of_our_making(levels, monkeypatch):
    monkeypatch.setenv(boxoban.VARIABLE, levels)
    scaffold = load("minihack-v4")
    spec = EpisodeSpec(env="minihack", task="boxoban-hard", seed=42, scaffold="x", scaffold_digest="x", models={})
    env = envs.make("minihack", "boxoban-hard")

    async def inline(function, *args, **kwargs):
        return function(*args, **kwargs)

    async def play():
        agent = Agent(spec, scaffold, env, {"gameplay": make_scripted("explorer")}, inline)
        observation, info = env.reset(seed=42)
        for _ in range(20):
            decision = await agent.act(observation, info["state"])
            observation, _, terminated, _, info = env.step(decision.action)
            if terminated:
                break
        env.close()
        return info["progress"]

    assert asyncio.run(play()) == 1.0
