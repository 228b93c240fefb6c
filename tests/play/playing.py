"""Runs to compare: played here or by the command line, and read back without what depends on the clock."""

import os
import re
import subprocess
import sys

from automem.episode import Limits, ModelSpec
from automem.models import make_model
from automem.play.folder import RunConfig
from automem.play.run import play_run
from automem.scaffold.spec import load

COURIER = "scripted:courier"
#: A timing as it stands in a line, and the digest over all of them; inside a text its quotes would be escaped.
_TIMES = re.compile(rb'"(seconds|digest)":(?:\{[^}]*\}|[0-9.e-]+|"[0-9a-f]{32}")')


def config(made, seeds=(0,), env="courier", tasks=None, model=COURIER, **others):
    tasks = tasks or ["small"]
    return RunConfig(
        env=env,
        tasks=list(tasks),
        seeds=list(seeds),
        scaffold=made.name,
        scaffold_digest=made.digest,
        models={"gameplay": ModelSpec(name=model)},
        limits=Limits(**others.pop("limits", {})),
        **others,
    )


def play(out, seeds=(0,), jobs=1, scaffold="courier-v1", model=COURIER, models=None, redo=False, **others):
    """A run in this process; `models` answer instead of the one that is named."""
    made = scaffold if not isinstance(scaffold, str) else load(scaffold)
    if steps := others.pop("steps", None):
        others["limits"] = {"max_steps": steps, **others.get("limits", {})}
    asked = models or {"gameplay": make_model(model, {})}
    return play_run(out, config(made, seeds, model=model, **others), made, asked, jobs, redo)


def timeless(path):
    """The bytes of a trace without its timings."""
    return _TIMES.sub(rb'"\1":0', path.read_bytes())


def traces(out):
    return {path.name: timeless(path) for path in sorted((out / "traces").rglob("*.jsonl"))}


def memories(out):
    """Contents of every file below `memory/`, by path."""
    root = out / "memory"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def same(one, other):
    """Whether two runs have the same traces, apart from timings, and the same memory."""
    assert traces(one) == traces(other)
    assert memories(one) == memories(other)
    return bool(traces(one))


def failures(played):
    return [(result.failure, result.message) for result in played.failures]


_COMMAND = [sys.executable, "-c", "from automem.cli.main import main; main()"]


def start(*arguments, cwd, prepare=None, **environ):
    """The command line, started."""
    return subprocess.Popen(
        [*_COMMAND, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    )


def run(*arguments, cwd, **others):
    """Exit code, stdout and stderr of the command line."""
    with start(*arguments, cwd=cwd, **others) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


TOY = '''
"""Counts. Goes wrong as the variables TOY_FAILS (seeds), TOY_SHIFT (a number) and TOY_LACKS (a key) say."""
import os
from automem.env import ActionSpace, Env, TextSpace

TASKS = ("a", "b")

class Oops(Exception):
    pass

class Toy(Env):
    instructions = "Count."
    actions = ("up", "down")
    default_action = "up"
    max_steps = 9

    def __init__(self):
        self.action_space, self.observation_space = ActionSpace(self.actions), TextSpace()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.count, self.time = seed, 0, 0
        return self.see()

    def step(self, action):
        self.time += 1
        self.count += {"up": 1, "down": -1}[action]
        if self.time == 5 and str(self.seed) in os.environ.get("TOY_FAILS", "").split():
            raise Oops("the counter is broken")
        if self.time == 5:
            self.count += int(os.environ.get("TOY_SHIFT", "0"))
        text, info = self.see()
        return text, 1.0, self.time == 7 and self.seed == 7, self.time == self.max_steps, info

    def see(self):
        info = {"progress": self.time / 9, "state": {"position": [self.count]}}
        if missing := os.environ.get("TOY_LACKS"):
            del info[missing]
        return f"count {self.count}", info

def make(task):
    return Toy()
'''
