"""Counterfactual labels: what an episode would have come to without one of its steps in the prompt.

A trial replays the recorded actions up to a step, hides one older step from the prompts, and lets the run's own
model play on from there, as far as the recorded episode went. The loss is the progress that is missing then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from automem import env as envs
from automem.agent.agent import Agent
from automem.env import boundary
from automem.episode import EpisodeSpec
from automem.errors import UsageError
from automem.messages import Role
from automem.models.base import Model
from automem.play.folder import RunFolder
from automem.play.resume import replay
from automem.scaffold.spec import Scaffold, load_folder
from automem.trace import Step, TraceReader

T = TypeVar("T")
#: Episode, hidden step, first and last step of a trial.
Key = tuple[str, int, int, int]


@dataclass(frozen=True)
class Trial:
    """Step `hidden` of an episode is out of the prompts from step `start` on; play ends before step `stop`.

    `progress` is what the recorded episode had there; `calls` and `tokens` (of prompts) what it took to get there
    from `start`, which is what the trial will take about.
    """

    spec: EpisodeSpec
    hidden: int
    start: int
    stop: int
    progress: float
    calls: int
    tokens: int

    @property
    def key(self) -> Key:
        """Which trial it is."""
        return self.spec.id, self.hidden, self.start, self.stop


@dataclass(frozen=True)
class Outcome:
    """What became of a trial: `loss` is the recorded progress minus the one without the step, at least 0."""

    episode: str
    hidden: int
    start: int
    stop: int
    steps: int
    calls: int
    loss: float

    @property
    def key(self) -> Key:
        """Of which trial."""
        return self.episode, self.hidden, self.start, self.stop


@dataclass(frozen=True)
class Cost:
    """What trials take. `replayed` steps ask no model; `calls` and `tokens` are as in the recorded episodes."""

    trials: int
    steps: int
    calls: int
    tokens: int
    replayed: int


def trials(run: RunFolder, episodes: int | None = None, keep_last: int = 5, horizon: int | None = None) -> list[Trial]:
    """One trial for each step that could have been evicted, in the first `episodes` finished ones (None: in all).

    A step can go once `keep_last` newer ones are there. `horizon` bounds how many steps are played; None: to where
    the recorded episode ended.

    Raises:
        UsageError: no episode is finished.
    """
    found = [
        trial
        for spec, _ in islice(run.finished(), episodes)
        for trial in _of_episode(spec, list(TraceReader(run.trace_path(spec)).steps()), keep_last, horizon)
    ]
    if not found:
        raise UsageError(f"{run.path} has no finished episode with more than {keep_last} steps", "play one first")
    return found


def _of_episode(spec: EpisodeSpec, steps: Sequence[Step], keep_last: int, horizon: int | None) -> Iterator[Trial]:
    for start in range(keep_last + 1, len(steps)):
        stop = len(steps) if horizon is None else min(len(steps), start + horizon)
        calls = [call for step in steps[start:stop] for call in step.calls]
        tokens = sum(call.usage.prompt for call in calls)
        yield Trial(spec, start - keep_last - 1, start, stop, steps[stop - 1].progress, len(calls), tokens)


def cost(chosen: Sequence[Trial]) -> Cost:
    """What `chosen` take together."""
    return Cost(
        trials=len(chosen),
        steps=sum(trial.stop - trial.start for trial in chosen),
        calls=sum(trial.calls for trial in chosen),
        tokens=sum(trial.tokens for trial in chosen),
        replayed=sum(trial.start for trial in chosen),
    )


def read_outcomes(path: Path, chosen: Sequence[Trial]) -> dict[Key, Outcome]:
    """The outcomes of `chosen` that are in a file of earlier trials; a torn last line is left out.

    Raises:
        UsageError: a line of the file is none of an outcome.
    """
    known = {}
    for number, line in enumerate(_whole_lines(path), 1):
        try:
            outcome = Outcome(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}, line {number}: not the outcome of a trial", "remove the file") from error
        known[outcome.key] = outcome
    return {trial.key: known[trial.key] for trial in chosen if trial.key in known}


async def play_trials(
    run: RunFolder, chosen: Sequence[Trial], models: Mapping[Role, Model], jobs: int, path: Path
) -> dict[Key, Outcome]:
    """Play what is not in the file at `path` yet, at most `jobs` at a time; each outcome is added to it at once.

    Raises:
        EpisodeFailure: a model or environment failed; what was played is in the file, and the same call goes on.
    """
    outcomes = read_outcomes(path, chosen)
    scaffold = load_folder(run.path / "scaffold")
    slots = asyncio.Semaphore(jobs)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A line that was cut short must not swallow the next one.
    path.write_text("".join(_whole_lines(path)), encoding="utf-8")

    async def play(trial: Trial) -> None:
        async with slots:
            outcome = outcomes[trial.key] = await _play(run, trial, scaffold, models)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")

    try:
        async with asyncio.TaskGroup() as group:
            for trial in chosen:
                if trial.key not in outcomes:
                    group.create_task(play(trial))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return outcomes


async def _play(run: RunFolder, trial: Trial, scaffold: Scaffold, models: Mapping[Role, Model]) -> Outcome:
    spec = trial.spec
    name = f"{spec.env}/{spec.task} seed {spec.seed} without step {trial.hidden}"
    with boundary(f"making {spec.env}/{spec.task}"):
        env = envs.make(spec.env, spec.task, **spec.options)
    try:
        agent = Agent(spec, scaffold, env, models, _at_once)
        with boundary(f"reset of {name}"):
            observation, info = env.reset(seed=spec.seed)
        state, progress = info["state"], info["progress"]
        agent.history.start(state)
        for replayed in islice(replay(run.trace_path(spec), env, agent, observation, state), trial.start):
            observation, state, last = replayed
            progress = last.progress
        agent.history.hidden.add(trial.hidden)
        calls, over = 0, False
        while not over and agent.history.step < trial.stop:
            decision = await agent.act(observation, state)
            calls += len(decision.calls)
            with boundary(f"step {agent.history.step} of {name}"):
                after, reward, terminated, truncated, info = env.step(decision.action)
            step = Step(
                t=agent.history.step,
                observation=observation,
                proposed=decision.proposed,
                action=decision.action,
                fallback=decision.fallback,
                reward=float(reward),
                progress=info["progress"],
                next_digest="",
            )
            agent.record(step, state, after, info["state"])
            observation, state, progress = after, info["state"], info["progress"]
            over = terminated or truncated
    finally:
        env.close()
    steps, loss = agent.history.step - trial.start, max(0.0, round(trial.progress - progress, 6))
    return Outcome(spec.id, trial.hidden, trial.start, trial.stop, steps, calls, loss)


async def _at_once(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Blocking work done on the spot: what waits in a trial is the model."""
    return function(*args, **kwargs)


def _whole_lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    return [line for line in lines if line.endswith("\n")]
