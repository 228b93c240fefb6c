"""Desk: rules, commands, determinism, success by replay, and a clerk who is worth as much as his context."""

import json
import os
import re
import subprocess
import sys

import pytest
from gymnasium.utils.env_checker import check_env

from automem import plugins
from automem.agent.agent import Agent
from automem.env import MAX_OBSERVATION, make, random_actions
from automem.episode import EpisodeSpec
from automem.errors import UsageError
from automem.messages import Usage
from automem.models.base import Completion, Request
from automem.models.scripted import make as make_scripted
from automem.models.scripted.desk import command
from automem.scaffold.spec import load

DESK = plugins.load_module(plugins.find(plugins.ENV, "desk"))
TASKS = DESK.TASKS


def started(task="easy", seed=3, **options):
    env = make("desk", task, **options)
    observation, _ = env.reset(seed=seed)
    return env, observation


def serve(env, observation, steps=10**9, shown=10**9):
    """Let the clerk play on, who sees the last `shown` steps: (actions, observations, last info)."""
    past, actions, seen = [], [], [observation]
    info, over = None, False
    while not over and len(actions) < steps:
        context = "\n\n".join([env.instructions, *past[len(past) - min(shown, len(past)) :], observation])
        actions.append(command(context, observation))
        past.append(f"{observation}\nYou did: {actions[-1]}")
        observation, _, terminated, truncated, info = env.step(actions[-1])
        seen.append(observation)
        over = terminated or truncated
    return actions, seen, info


def answer(env, text):
    return env.step(text)[0].split("\n")[2]


@pytest.mark.parametrize("task", TASKS)
def test_it_is_an_environment(task):
    check_env(make("desk", task), skip_render_check=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("wait", "wait"),
        ("  LOGIN desk  pw-aB ", "login desk pw-aB"),
        ("`open tk-1 Marta Quill`", "open tk-1 Marta Quill"),
        ("attach tk-1 CS-1 /srv/a DC-1", "attach tk-1 CS-1 /srv/a DC-1"),
        ("login SERVICE PASSWORD", "login SERVICE PASSWORD"),
        ("login desk", None),
        ("wait a minute", None),
        ("seal tk-1 CS-1 /srv/a", None),
        ("sing", None),
        ("", None),
    ],
)
def test_a_command_is_a_word_and_its_arguments(text, found):
    env, _ = started()
    assert env.find_action(text) == found
    assert env.action_space.contains(text) == (found is not None)


def test_the_space_samples_commands_that_can_be_executed():
    env, _ = started("hard")
    space = env.action_space
    space.seed(1)
    for _ in range(50):
        assert isinstance(env.step(space.sample())[0], str)
    assert not space.contains(7)
    with pytest.raises(ValueError, match="no command 'sing'"):
        env.step("sing")


@pytest.mark.parametrize("task", TASKS)
def test_a_clerk_who_sees_everything_serves_all_in_the_fewest_steps(task):
    env, observation = started(task)
    actions, seen, info = serve(env, observation)
    assert len(actions) == env.task.shortest <= env.max_steps
    assert info["progress"] == 1
    assert info["state"]["solved"]
    assert max(map(len, seen)) <= MAX_OBSERVATION
    replayed, _ = started(task)
    for action in actions:
        _, _, terminated, _, info = replayed.step(action)
    assert terminated
    assert info["state"]["solved"]


def test_a_clerk_who_sees_nothing_of_the_past_only_opens_cases():
    env, observation = started("medium")
    actions, _, info = serve(env, observation, shown=0)
    assert len(actions) == env.max_steps
    assert info["progress"] == env.task.cases / len(env.world.requests)
    assert not info["state"]["solved"]


def test_the_more_he_sees_the_more_he_serves():
    def progress(shown):
        env, observation = started("medium")
        return serve(env, observation, shown=shown)[2]["progress"]

    served = [progress(shown) for shown in (5, 10, 20, 85)]
    assert served == sorted(served)
    assert served[0] < 0.5 < served[2] < 1 == served[3]


def test_he_logs_in_and_looks_up_again_what_he_does_not_see():
    env, observation = started("medium", strangers=60)
    serve(env, observation, steps=20)
    looked = serve(env, env.step("wait")[0], steps=9, shown=4)[0]
    assert [text.split()[0] for text in looked][:3] == ["letter", "login", "cases"]
    assert "cases" in looked[3]
    assert looked[2].split()[2:] == ["1"]
    assert looked[3].split()[2:] == ["2"]


def test_a_refused_token_makes_him_log_in():
    env, observation = started()
    actions, seen, _ = serve(env, observation, steps=2)
    env.step(actions[0])
    stale = env.step(actions[1].replace("open", "find"))[0]
    assert "error: the token is not valid for desk" in stale
    context = "\n\n".join([env.instructions, *seen, stale])
    assert command(context, stale) == actions[0]


def test_a_new_login_ends_the_token_before_it():
    env, _ = started("medium")
    world = env.world
    first = answer(env, f"login archive {world.password}")
    second = answer(env, f"login archive {world.password}")
    assert first != second
    assert second == f"Token for archive: {world.tokens['archive']}."
    assert answer(env, "login archive wrong") == "error: no such service, or a wrong password"
    assert answer(env, f"login ledger {world.password}") == "error: no such service, or a wrong password"
    assert answer(env, f"find {first.split()[-1][:-1]} Ann Lee") == "error: the token is not valid for archive"


def test_only_what_is_exactly_right_serves_a_request():
    env, observation = started("easy")
    serve(env, observation, steps=1 + env.task.cases)
    world = env.world
    request, token = world.request, world.tokens["desk"]
    case = world.cases[request.name]
    right = ["attach", token, case.number, case.folder, case.document_id]
    for place, wrong in ((1, "tk-wrong"), (2, case.number.lower()), (3, f"{case.folder}/"), (4, "DC-1")):
        command_text = " ".join([*right[:place], wrong, *right[place + 1 :]])
        assert answer(env, command_text).startswith("error: ")
    assert answer(env, f"approve {token} {case.number} {case.folder}").startswith("error: ")
    assert answer(env, f"open {token} {request.name}").startswith("error: ")
    assert world.request == request
    _, reward, *_ = env.step(" ".join(right))
    assert reward == 1
    assert case.done == ["attach"]


def test_the_register_has_every_case_once():
    env, observation = started("medium")
    serve(env, observation, steps=1 + env.task.cases)
    token, pages = env.world.tokens["desk"], env.world.pages
    texts = [env.step(f"cases {token} {page}")[0] for page in range(1, pages + 1)]
    rows = [line.split(" | ") for text in texts for line in text.split("\n") if line.startswith("CS-")]
    assert len(rows) == env.task.strangers + env.task.cases
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    ours = {row[1]: row[0] for row in rows if row[1] in env.world.cases}
    assert ours == {name: case.number for name, case in env.world.cases.items()}
    for page in ("0", str(pages + 1), "two", "²"):
        assert answer(env, f"cases {token} {page}") == f"error: the register has pages 1 to {pages}"


@pytest.mark.parametrize("task", TASKS)
def test_progress_never_falls_and_state_is_json(task):
    env, observation = started(task)
    progress = 0.0
    for number, action in enumerate(random_actions(env, 1, 60)):
        if number % 3:
            action = command(f"{env.instructions}\n\n{observation}", observation)
        observation, _, _, _, info = env.step(action)
        assert progress <= info["progress"] <= 1
        assert len(observation) <= MAX_OBSERVATION
        assert json.loads(json.dumps(info["state"])) == info["state"]
        progress = info["progress"]
    assert progress > 0


def test_the_longest_observation_fits():
    env, observation = started("hard", listing=120, log=60)
    _, seen, _ = serve(env, observation, steps=40)
    assert max(map(len, seen)) <= MAX_OBSERVATION


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cases": 0}, "cases must be"),
        ({"works": 6}, "works must be"),
        ({"case": 1}, "no option"),
        ({"log": "x"}, "whole number"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(UsageError, match=message):
        make("desk", "easy", **options)


PLAY = """
import hashlib
from automem.env import make, random_actions
digest = hashlib.sha256()
for task in ("easy", "medium", "hard"):
    env = make("desk", task)
    digest.update(repr(env.reset(seed=17)).encode())
    for action in random_actions(env, 3, 30):
        digest.update(repr(env.step(action)).encode())
    for action in (f"login desk {env.world.password}", "letter"):
        digest.update(repr(env.step(action)).encode())
"""


def test_the_same_seed_is_the_same_episode_in_any_process():
    def digest(hash_seed):
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        code = f"{PLAY}print(digest.hexdigest())"
        run = [sys.executable, "-c", code]
        ran = subprocess.run(run, env=environ, cwd=plugins.PACKAGE.parent, capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    scope = {}
    exec(PLAY, scope)
    assert digest("1") == scope["digest"].hexdigest()


def test_another_seed_is_another_game():
    env = make("desk", "easy")
    assert len({env.reset(seed=seed)[0] for seed in range(20)}) == 20


def test_without_a_seed_a_game_is_drawn():
    env = make("desk", "easy")
    env.reset(seed=5)
    assert env.reset()[0] != env.reset()[0]


async def test_as_a_model_he_reads_the_whole_conversation():
    env, observation = started()
    model = make_scripted("desk")
    request = Request("gameplay", "plan", "desk", "easy", 3, 0, 0, 0)

    def prompt(*past):
        user = "\n\n".join([*past, f"# Observation\n{observation}", "# PLAN\nOperations now: ACTION."])
        return [
            {"role": "system", "content": f"{env.instructions}\n\n# Actions\n- wait (default)"},
            {"role": "user", "content": user},
        ]

    first = await model.generate(prompt(), request)
    assert first.text == f"<|ACTION|>login desk {env.world.password}<|END|>"
    past = f"# Step 0\n{observation}"
    observation = env.step(first.text.split("|")[2][1:-1])[0]
    second = await model.generate(prompt(past), request)
    assert second.text == f"<|ACTION|>open {env.world.tokens['desk']} {env.world.request.name}<|END|>"
    log = prompt()
    log[1]["content"] = log[1]["content"].replace("# PLAN", "# LOG")
    assert (await model.generate(log, request)).text == "<|DONE|>"


def test_he_waits_when_all_is_served_or_nothing_is_understood():
    assert command("All 24 requests are served.", "All 24 requests are served.") == "wait"


def test_tasks_of_other_sizes_can_be_served():
    for options in ({"works": 1, "services": 3, "strangers": 0}, {"cases": 1, "works": 5, "log": 0}):
        env, observation = started("easy", **options)
        assert serve(env, observation)[2]["state"]["solved"]


async def test_constrained_replies_can_be_any_command():
    seen = []

    class Asked:
        name = "asked"

        async def generate(self, messages, request):
            seen.append(request.grammar)
            return Completion("<|ACTION|>login desk pw-1<|END|>", Usage(1, 1))

    async def inline(function, *args, **kwargs):
        return function(*args, **kwargs)

    env = make("desk")
    observation, info = env.reset(seed=0)
    scaffold = load("desk-full", {"constrained": True})
    spec = EpisodeSpec(env="desk", task="easy", seed=0, scaffold="x", scaffold_digest="x", models={})
    decision = await Agent(spec, scaffold, env, {"gameplay": Asked()}, inline).act(observation, info["state"])
    assert decision.action == "login desk pw-1"
    assert re.fullmatch(seen[0], "<|ACTION|>login desk pw-1<|END|>")
