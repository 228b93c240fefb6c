"""CPU of the harness per step: what AutoMem adds to the env and the model, from step 0 to 2,000.

The recorded actions of each episode are played again through the env alone, in the same process.
"""

import statistics
import sys
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
NETHACK_STEPS = 500
NETHACK_FILES = ("monster_encounters.txt", "actions_log.txt", "strategy.txt")
NETHACK_ACTIONS = ("north", "east", "south", "west", "search")
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


def quietest_steps(runs, start, end):
    """Milliseconds of each step from `start` to `end`, from the run that disturbed it least."""
    steps = zip(*([b - a for a, b in pairwise(marks[start : end + 1])] for marks in runs), strict=True)
    return [min(times) * 1000 for times in steps]


def quietest(runs, start, end):
    """Mean milliseconds of the steps from `start` to `end`."""
    return statistics.fmean(quietest_steps(runs, start, end))


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


def nethack_instant(scaffold_name):
    """A row for NetHack with a model that costs nothing: median and mean of the harness's part of a step."""
    config, scaffold = config_of("nethack", "default", scaffold_name, "scripted:instant", [42], NETHACK_STEPS)
    agent, ours = [], []
    for _ in range(REPEATS):
        marks, actions = whole_agent(config, scaffold, Instant(NETHACK_FILES, NETHACK_ACTIONS))
        agent.append(marks)
        ours.append(env_alone(config.specs()[0], actions)[0])
    count = len(actions)
    whole, alone = quietest_steps(agent, 0, count), quietest_steps(ours, 0, count)
    harness = [step - env for step, env in zip(whole, alone, strict=True)]
    middle, mean = statistics.median, statistics.fmean
    return scaffold_name, count, middle(whole), mean(whole), middle(alone), middle(harness), mean(harness)


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


def nethack():
    """NetHack: a logic.py in the sandbox at every step, and a trace of long observations."""
    table(
        "NetHack, instant model (4 calls, 4 memory operations a step): CPU ms a step",
        ("scaffold", "steps", "agent median", "agent mean", "env median", "harness median", "harness mean"),
        *map(nethack_instant, ("nethack-v0", "nethack-v2")),
    )


def crafter_and_courier():
    """The environments that the figures of README.md are of."""
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


if __name__ == "__main__":
    if "nethack" in sys.argv:
        nethack()
    else:
        crafter_and_courier()
