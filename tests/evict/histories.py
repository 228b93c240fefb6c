"""Made histories: random units and chats, and games of Desk played with a policy over the past steps."""

import random

from automem.env import make as make_env
from automem.evict import Evictor, Limits, Unit, approximate_tokens
from automem.evict.units import step_text
from automem.models.scripted.desk import command

WORDS = [
    "the",
    "error",
    "token",
    "Case",
    "of",
    "folder",
    "/srv/a/77",
    "CS-48213-K7",
    "https://a.example/7",
    "Not",
    "found",
    "2019-03-12",
]
WORDS += ["tk-p8zhp9xed2yx", "x = f(1);\n", "def f():", "naïve", "京都", "", "\ud83d"]


def random_units(draw: random.Random, most=10, pins=0.15):
    """Units with texts and costs that have nothing to do with each other."""
    return [
        Unit(
            index,
            " ".join(draw.choices(WORDS, k=draw.randrange(9))),
            draw.choice((0, 1, 1, 3, 7, 50, 400)),
            pinned=draw.random() < pins,
        )
        for index in range(draw.randrange(most + 1))
    ]


def random_chat(draw: random.Random, turns=6):
    """A chat as the API takes it: rules, a task, replies with and without calls, answers, questions in between."""
    chat = [{"role": "system", "content": "Obey."}, {"role": "user", "content": "Do it."}]
    for turn in range(draw.randrange(turns + 1)):
        text = " ".join(draw.choices(WORDS, k=draw.randrange(9)))
        calls = [f"call_{turn}_{number}" for number in range(draw.randrange(3))]
        message = {"role": "assistant", "content": text or None}
        if calls:
            function = {"name": "look", "arguments": "{}"}
            message["tool_calls"] = [{"id": call, "type": "function", "function": function} for call in calls]
        chat.append(message)
        chat += [{"role": "tool", "tool_call_id": call, "content": text * draw.randrange(4)} for call in calls]
        if not calls or draw.random() < 0.2:
            chat.append({"role": "user", "content": text + "?"})
        if draw.random() < 0.1:
            chat.append({"role": "system", "content": f"Rule {turn}."})
    return chat


def play_desk(policy, seed, task="medium", budget=10**9, **options):
    """One game by the scripted clerk, who sees of the past what the policy keeps: (progress, steps, all units)."""
    env = make_env("desk", task, **options)
    observation, info = env.reset(seed=seed)
    evictor = Evictor(policy, Limits(budget=budget))
    units, over = [], False
    while not over:
        shown = [env.instructions, *(unit.text for unit in evictor(units)), observation]
        action = command("\n\n".join(shown), observation)
        text = step_text(observation, action)
        units.append(Unit(len(units), text, approximate_tokens(text)))
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return info["progress"], len(units), units
