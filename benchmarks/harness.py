"""CPU of the harness per step: what AutoMem adds to the env and the model, from step 0 to 2,000.

The recorded actions of each episode are played again through the env alone, in the same process.
"""

import time
from itertools import pairwise

import crafter
from common import DIRECTIONS, MOVES, Instant, Timed, config_of, play, table, temporary_run, trace_of

from automem import env as envs
from automem import plugins
from automem.models import make_model
from automem.trace import TraceReader

WINDOWS = ((0, 100), (100, 200), (1000, 1100), (1900, 2000))
STEPS = 2000
REPEATS = 5
MAP_FILES = ("map_notes.txt", "survival_log.txt", "actions_log.txt")


class Bare(crafter.Env):
    """The crafter library's env, never drawing, in the world that our env makes of a seed."""

    def __init__(self, world_seed):
        super().__init__(length=None)
        reset = self._world.reset
        self._world.reset = lambda seed: reset(seed=world_seed)
        self.revive = plugins.load_module(plugins.find(plugins.ENV, "deathless")).revive

    def render(self, size=None):
        return None


def marks_of(steps):
    """CPU seconds after each of `steps`, functions that play one step."""
    marks = [time.process_time()]
    for step in steps:
        step()
        marks.append(time.process_time())
    return marks


def env_alone(spec, actions):
    """CPU marks of our env, step and text, over recorded actions; and the env."""
    env = envs.make(spec.env, spec.task)
    env.reset(seed=spec.seed)
    return marks_of([lambda a=action: env.step(a) for action in actions]), env


def library_alone(env, actions):
    """CPU marks of the library's step over the same actions."""
    bare = Bare(env._seed)
    bare.reset()

    def step(action):
        bare.revive(bare._player)
        bare.step(env.actions.index(action))

    return marks_of([lambda a=action: step(a) for action in actions])


def whole_agent(config, scaffold, model):
    """CPU marks of an episode, and its actions."""
    with temporary_run() as folder:
        clock = play(folder, config, scaffold, model)
        return clock.marks, [step.action for step in TraceReader(trace_of(folder)).steps()]


def quietest(runs, start, end):
    """Mean milliseconds of the steps from `start` to `end`, each from the run that disturbed it least."""
    steps = zip(*([b - a for a, b in pairwise(marks[start : end + 1])] for marks in runs), strict=True)
    return sum(map(min, steps)) / (end - start) * 1000


def crafter_instant():
    """The whole agent with a model that costs nothing: harness, env and library, by window."""
    config, scaffold = config_of("deathless", "default", "crafter-v0", "scripted:instant", max_steps=STEPS)
    agent, ours, library = [], [], []
    for _ in range(REPEATS):
        marks, actions = whole_agent(config, scaffold, Instant(MAP_FILES, MOVES))
        agent.append(marks)
        marks, env = env_alone(config.specs()[0], actions)
        ours.append(marks)
        library.append(library_alone(env, actions))
    rows = []
    for start, end in (*WINDOWS, (0, STEPS)):
        whole, alone, bare = (quietest(runs, start, end) for runs in (agent, ours, library))
        rows.append((f"{start}-{end}", whole, alone, whole - alone, bare, whole / bare, 1000 / whole))
    table(
        "Crafter, crafter-v0, instant model (4 calls, 4 memory operations a step): CPU ms a step",
        ("steps", "agent step", "env alone", "harness", "bare library", "agent/bare", "steps/s"),
        *rows,
    )


def courier_instant():
    """Steps per second with a model that costs nothing, beside the bare env."""
    config, scaffold = config_of("courier", "huge", "courier-v0", "scripted:instant", max_steps=STEPS)
    agent, ours = [], []
    for _ in range(REPEATS):
        marks, actions = whole_agent(config, scaffold, Instant(("notes.txt",), DIRECTIONS))
        agent.append(marks)
        ours.append(env_alone(config.specs()[0], actions)[0])
    rows = []
    for start, end in (*WINDOWS, (0, STEPS)):
        whole, alone = quietest(agent, start, end), quietest(ours, start, end)
        rows.append((f"{start}-{end}", whole, alone, whole - alone, 1000 / whole, 1000 / alone))
    table(
        "Courier huge, courier-v0, instant model (4 calls, 4 memory operations a step): CPU ms a step",
        ("steps", "agent step", "env alone", "harness", "steps/s", "bare env steps/s"),
        *rows,
    )


def scripted(env, task, scaffold_name, model_name):
    """A row of harness CPU with a scripted policy, whose own CPU is taken off."""
    config, scaffold = config_of(env, task, scaffold_name, model_name, max_steps=STEPS)
    agent, policy, ours = [], [], []
    for _ in range(REPEATS):
        model = Timed(make_model(model_name, {}))
        marks, actions = whole_agent(config, scaffold, model)
        agent.append(marks)
        policy.append(model.seconds / len(actions) * 1000)
        ours.append(env_alone(config.specs()[0], actions)[0])
    count = len(actions)
    whole, alone = quietest(agent, 0, count), quietest(ours, 0, count)
    return f"{env}/{task}", scaffold_name, model_name, count, whole, min(policy), alone, whole - min(policy) - alone


if __name__ == "__main__":
    crafter_instant()
    courier_instant()
    table(
        "Scripted policies: CPU ms a step, mean of the episode",
        ("env", "scaffold", "model", "steps", "agent step", "policy", "env alone", "harness"),
        scripted("crafter", "default", "crafter-v0", "scripted:crafter"),
        scripted("deathless", "default", "crafter-v0", "scripted:crafter"),
        scripted("courier", "huge", "courier-v0", "scripted:courier"),
        scripted("courier", "huge", "courier-v1", "scripted:courier"),
    )
