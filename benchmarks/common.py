"""What the benchmarks share: playing in a temporary run folder, CPU clocks, tables."""

import asyncio
import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from automem.episode import Limits
from automem.messages import Message
from automem.models import make_model, model_spec
from automem.models.base import Completion, Request, estimate_usage
from automem.play.folder import RunConfig, RunFolder
from automem.play.rollout import Rollout, rollout_all
from automem.scaffold import spec as scaffolds

HERE = Path(__file__).resolve().parent
# The benchmarks' own envs are found like anyone's.
os.environ["AUTOMEM_PATH"] = str(HERE)

MOVES = ("Move West", "Move East", "Move North", "Move South", "Do")
DIRECTIONS = ("north", "east", "south", "west", "wait")


class Clock:
    """A watcher that notes the process's CPU time when play starts and after each step."""

    def __init__(self):
        self.marks = []

    def started(self, spec, steps, max_steps):
        self.marks.append(time.process_time())

    def stepped(self, spec, step):
        self.marks.append(time.process_time())

    def finished(self, spec, result):
        pass


class Instant:
    """A model that costs next to nothing: it looks at role, phase and step, never at the prompt.

    In LOG it searches and appends, then ends; in PLAN it searches and reads, then acts. Four calls a step.
    """

    name = "scripted:instant"

    def __init__(self, files, actions):
        self.files = files
        self.actions = actions

    async def generate(self, messages: list[Message], request: Request) -> Completion:
        text = self._text(request, opening=messages[-2]["role"] == "system")
        return Completion(text, estimate_usage(messages, text))

    async def close(self):
        pass

    def _text(self, request: Request, opening: bool) -> str:
        t, file = request.step, self.files[request.step % len(self.files)]
        if request.phase == "log":
            note = f"<|SEARCH|>{file}|{t % 97}<|END|>\n<|APPEND|>{file}|step {t}: tree at {t % 31},{t % 17}<|END|>"
            return note if opening else "<|DONE|>"
        if opening:
            return f"<|SEARCH|>{file}|tree at {t % 31}<|END|>\n<|READ|>{file}<|END|>"
        return f"<|ACTION|>{random.Random(t).choice(self.actions)}<|END|>"


class Timed:
    """A model whose own CPU time is added up, to be taken off the harness's. For models that never wait."""

    def __init__(self, model):
        self.name = model.name
        self.seconds = 0.0
        self._model = model

    async def generate(self, messages, request):
        began = time.thread_time()
        completion = await self._model.generate(messages, request)
        self.seconds += time.thread_time() - began
        return completion

    async def close(self):
        await self._model.close()


def config_of(env, task, scaffold, model_name, seeds=(0,), max_steps=None, settings=None):
    """Config and loaded scaffold of a run."""
    loaded = scaffolds.load(scaffold)
    config = RunConfig(
        env=env,
        tasks=[task],
        seeds=list(seeds),
        scaffold=loaded.name,
        scaffold_digest=loaded.digest,
        models={"gameplay": model_spec(model_name, settings or {})},
        limits=Limits(max_steps=max_steps),
    )
    return config, loaded


def play(folder, config, scaffold, model=None, watcher=None, jobs=1):
    """Play the run of `config` below `folder`; the watcher that was told."""
    watcher = watcher or Clock()
    model = model or make_model(config.models["gameplay"].name, {})
    run = RunFolder(Path(folder), config, {})
    run.save()

    async def go():
        try:
            return await rollout_all(Rollout(run, scaffold, {"gameplay": model}, watcher), config.specs(), jobs)
        finally:
            await model.close()

    results = asyncio.run(go())
    assert not any(result.failure for result in results), results
    return watcher


def trace_of(folder):
    """The only trace of a run."""
    return next((Path(folder) / "traces").rglob("*.jsonl"))


def peak_mb():
    """Largest resident set of this process so far, in MB."""
    # Not from `getrusage`, where a child starts with the figure of its parent.
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


@contextlib.contextmanager
def temporary_run():
    """A run folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="automem-bench-") as folder:
        yield Path(folder)


def in_subprocess(*args):
    """Run this benchmark again as a child that does one thing; what it prints."""
    done = subprocess.run([sys.executable, sys.argv[0], *map(str, args)], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def table(title, head, *rows):
    """Print a table; numbers are rounded to three significant digits."""
    cells = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _cell(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
