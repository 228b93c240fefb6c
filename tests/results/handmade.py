"""Traces made by hand, written by the real writer, for tests of what is read from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from automem.episode import EpisodeSpec, ModelSpec, text_digest
from automem.memory.kinds import Splice
from automem.messages import Message, Phase, Usage
from automem.play.folder import RunConfig, RunFolder
from automem.trace import Call, OperationRecord, Result, Step, TraceWriter


def spec(seed: int = 0, **changes: Any) -> EpisodeSpec:
    base: dict[str, Any] = {
        "env": "courier",
        "task": "short",
        "seed": seed,
        "scaffold": "courier-v0",
        "scaffold_digest": "d1",
        "models": {"gameplay": ModelSpec(name="scripted:courier")},
    }
    return EpisodeSpec(**base | changes)


def op(name: str, *args: str, **facts: Any) -> OperationRecord:
    return OperationRecord(name=name, args=list(args), **facts)


def call(phase: Phase, *operations: OperationRecord, reply: str = "reply", **changes: Any) -> Call:
    messages: list[Message] = [{"role": "system", "content": "rules"}, {"role": "user", "content": phase}]
    base: dict[str, Any] = {
        "role": "memory" if phase == "log" else "gameplay",
        "phase": phase,
        "messages": messages,
        "reply": reply,
        "operations": list(operations),
        "usage": Usage(prompt=100, completion=10),
    }
    return Call(**base | changes)


def splice(file: str, at: int, removed: int, *inserted: str) -> Splice:
    return Splice(file, at, removed, inserted)


def play(seen: Sequence[str], **changes: Any) -> list[Step]:
    """Steps that pass from each text in `seen` to the next; `changes` are lists, one value per step."""
    steps = []
    for t, (here, there) in enumerate(pairwise(seen)):
        own = {key: values[t] for key, values in changes.items()}
        base: dict[str, Any] = {"action": "wait", "proposed": "wait", "reward": 0.0, "progress": 0.0}
        steps.append(Step(t=t, observation=here, next_digest=text_digest(there), **base | own))
    return steps


def ended(progress: float, steps: int = 2) -> Result:
    return Result(end="terminated", progress=progress, score=progress, steps=steps)


def failed(kind: Any = "model", steps: int = 0) -> Result:
    return Result(end="failed", progress=0.0, score=0.0, steps=steps, failure=kind, message="it broke")


def write(path: Path, steps: Iterable[Step], result: Result | None = None, of: EpisodeSpec | None = None) -> Path:
    with closing(TraceWriter(path, of or spec())) as writer:
        for step in steps:
            writer.step(step)
        if result:
            writer.result(result)
    return path


def run(path: Path, outcomes: dict[int, Result | None], **changes: Any) -> RunFolder:
    """A run of one or more `tasks` over the seeds of `outcomes`; None: the episode is not finished."""
    tasks = changes.pop("tasks", ["short"])
    base = spec(**changes).model_dump(exclude={"seed", "task"})
    folder = RunFolder(path, RunConfig(tasks=tasks, seeds=list(outcomes), **base), {})
    path.mkdir(parents=True)
    folder.save()
    for episode in folder.config.specs():
        write(folder.trace_path(episode), play(["a", "b", "c"]), outcomes[episode.seed], episode)
    return folder
