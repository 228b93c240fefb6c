"""Playing: one episode, or the rest of it, into its trace; and many of them at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from automem import env as envs
from automem.agent.agent import Agent, Decision
from automem.env import Env, boundary
from automem.episode import EpisodeSpec, text_digest
from automem.errors import EpisodeFailure
from automem.memory.files import Memory
from automem.messages import Role
from automem.models.base import Model
from automem.play.folder import RunFolder
from automem.play.resume import replay
from automem.scaffold.spec import Scaffold
from automem.trace import Result, Step, TraceWriter

T = TypeVar("T")

#: Characters of a failure's message that go into the result line.
_MESSAGE_CHARS = 2000


class Watcher(Protocol):
    """Is told how the episodes go; the progress display is one."""

    def started(self, spec: EpisodeSpec, steps: int, max_steps: int) -> None:
        """An episode starts, or goes on after `steps` steps."""

    def stepped(self, spec: EpisodeSpec, step: Step) -> None:
        """A step was played and written."""

    def finished(self, spec: EpisodeSpec, result: Result) -> None:
        """An episode ended or failed."""


@dataclass(frozen=True)
class Rollout:
    """What playing needs besides the spec: the scaffold, the models, where to write, who watches."""

    folder: RunFolder
    scaffold: Scaffold
    models: Mapping[Role, Model]
    watcher: Watcher


class _Thread:
    """One thread per episode: an env is always called from the same thread, and blocks no other episode."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1)

    async def __call__(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(function, *args, **kwargs))

    def close(self) -> None:
        self._executor.shutdown(wait=True)


async def rollout_all(rollout: Rollout, specs: Sequence[EpisodeSpec], jobs: int) -> list[Result]:
    """Play the episodes of `specs`, at most `jobs` at a time; results in the order of `specs`.

    A failed episode is a result like any other. Anything else that goes wrong stops all of them.
    """
    slots = asyncio.Semaphore(jobs)

    async def play(spec: EpisodeSpec) -> Result:
        async with slots:
            return await rollout_one(rollout, spec)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(play(spec)) for spec in specs]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def rollout_one(rollout: Rollout, spec: EpisodeSpec) -> Result:
    """Play or resume one episode; its trace tells everything, its result how it ended."""
    result = rollout.folder.result(spec)
    if result is not None and result.finished:
        return result
    thread = _Thread()
    episode = _Episode(rollout, spec, rollout.folder.trace_path(spec), thread)
    try:
        result = await episode.play()
    finally:
        await thread(episode.close)
        thread.close()
    rollout.watcher.finished(spec, result)
    return result


class _Episode:
    """One episode being played: env, agent and trace file, made in the episode's thread."""

    def __init__(self, rollout: Rollout, spec: EpisodeSpec, path: Path, thread: _Thread) -> None:
        self._rollout = rollout
        self._spec = spec
        self._name = f"{spec.env}/{spec.task} seed {spec.seed}"
        self._path = path
        self._thread = thread
        self._cleanup = ExitStack()
        self._writer: TraceWriter | None = None
        self._memory: Memory | None = None
        self._steps = 0
        self._score = 0.0
        self._progress = 0.0

    async def play(self) -> Result:
        """Play to the end; a failure of the episode ends it with what was reached so far."""
        try:
            result = self._result(await self._play())
        except EpisodeFailure as failure:
            told = {"message": str(failure)[:_MESSAGE_CHARS], "hint": failure.hint}
            result = self._result("failed", failure=failure.kind, **told)
        if self._writer is not None:
            await self._thread(self._end, self._writer, result)
        return result

    def close(self) -> None:
        """Bring memory and trace to the disk and close the env."""
        self._cleanup.close()

    def _end(self, writer: TraceWriter, result: Result) -> None:
        # Memory first: whoever sees the result line finds the memory as the episode left it.
        if self._memory is not None:
            self._memory.sync(self._rollout.folder.memory_path(self._spec))
        writer.result(result)

    def _result(self, end: Literal["terminated", "truncated", "failed"], **failure: Any) -> Result:
        return Result(end=end, progress=self._progress, score=self._score, steps=self._steps, **failure)

    async def _play(self) -> Literal["terminated", "truncated"]:
        env, agent, writer = await self._thread(self._make)
        observation, state, last = await self._thread(self._start, env, agent)
        limit = min(env.max_steps, self._spec.limits.max_steps or env.max_steps)
        self._rollout.watcher.started(self._spec, self._steps, limit)
        ended = last is not None and (last.terminated or last.truncated)
        while not ended and self._steps < limit:
            began = time.perf_counter()
            decision = await agent.act(observation, state)
            took = time.perf_counter() - began
            observation, state, step = await self._thread(
                self._step, env, agent, writer, decision, observation, state, took
            )
            self._rollout.watcher.stepped(self._spec, step)
            last, ended = step, step.terminated or step.truncated
        return "terminated" if last is not None and last.terminated else "truncated"

    def _make(self) -> tuple[Env, Agent, TraceWriter]:
        spec, rollout = self._spec, self._rollout
        self._writer = TraceWriter(self._path, spec)
        self._cleanup.callback(self._writer.close)
        with boundary(f"making {spec.env}/{spec.task}"):
            env = envs.make(spec.env, spec.task, **spec.options)
        self._cleanup.callback(env.close)
        agent = Agent(spec, rollout.scaffold, env, rollout.models, self._thread)
        self._memory = agent.memory
        self._cleanup.callback(agent.memory.sync, rollout.folder.memory_path(spec))
        return env, agent, self._writer

    def _start(self, env: Env, agent: Agent) -> tuple[str, dict[str, Any], Step | None]:
        with boundary(f"reset of {self._name}"):
            observation, info = env.reset(seed=self._spec.seed)
            state, self._progress = info["state"], info["progress"]
        agent.history.start(state)
        last = None
        for replayed in replay(self._path, env, agent, observation, state):
            observation, state, last = replayed
            self._count(last)
        return observation, state, last

    def _step(
        self,
        env: Env,
        agent: Agent,
        writer: TraceWriter,
        decision: Decision,
        observation: str,
        state: dict[str, Any],
        agent_seconds: float,
    ) -> tuple[str, dict[str, Any], Step]:
        began = time.perf_counter()
        with boundary(f"step {agent.history.step} of {self._name}"):
            after, reward, terminated, truncated, info = env.step(decision.action)
            after.encode()  # what is not text, e.g. a lone surrogate, is the env's fault and not the trace's
            after_state, progress = info["state"], info["progress"]
        took = time.perf_counter() - began
        step = Step(
            t=agent.history.step,
            observation=observation,
            calls=decision.calls,
            proposed=decision.proposed,
            action=decision.action,
            fallback=decision.fallback,
            rejections=decision.rejections,
            reward=float(reward),
            progress=progress,
            terminated=terminated,
            truncated=truncated,
            next_digest=text_digest(after),
            evictions=decision.evictions,
            memory=agent.memory.take_journal(),
            seconds={"agent": round(agent_seconds, 6), "env": round(took, 6)},
        )
        writer.step(step)
        agent.record(step, state, after, after_state)
        self._count(step)
        return after, after_state, step

    def _count(self, step: Step) -> None:
        self._steps = step.t + 1
        self._score += step.reward
        self._progress = step.progress
