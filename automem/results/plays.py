"""Playing for the loops: one run folder for each candidate and set of seeds, never played twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from automem.episode import Limits, ModelSpec
from automem.errors import RunError
from automem.messages import Role
from automem.models.base import Model
from automem.play.folder import RunConfig, RunFolder
from automem.play.run import play_run
from automem.results.behaviour import read_behaviour
from automem.scaffold.spec import Scaffold

#: Failures that are the candidate's own, and come again when it is played again.
_OWN = ("scaffold", "limit")


class Cost(BaseModel):
    """What something cost: model calls, tokens, seconds. Adds up."""

    model_config = ConfigDict(extra="forbid")

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in Cost.model_fields})


@dataclass(frozen=True)
class Game:
    """What every candidate of a loop plays, and with which models."""

    env: str
    tasks: tuple[str, ...]
    options: Mapping[str, object]
    models: Mapping[Role, ModelSpec]
    make_models: Callable[[], Mapping[Role, Model]]
    limits: Limits
    jobs: int


@dataclass(frozen=True)
class GatePlay:
    """A scaffold's run on one set of seeds: progress by `task/seed`, and what it cost."""

    run: RunFolder
    scores: dict[str, float]
    cost: Cost
    fault: str | None = None


def play(game: Game, scaffold: Scaffold, seeds: Sequence[int], folder: Path, repeat: int = 0) -> GatePlay:
    """Play `scaffold` on `seeds` into `folder`, or read it from there when it was played before.

    `fault` is set when the scaffold itself failed in an episode, or used up the episode's limits. Failures on
    any other side decide nothing.

    Raises:
        RunError: some episodes failed for reasons that are not the scaffold's; the candidate waits.
    """
    config = RunConfig(
        env=game.env,
        tasks=list(game.tasks),
        options=dict(game.options),
        seeds=list(seeds),
        scaffold=scaffold.name,
        scaffold_digest=scaffold.digest,
        models=dict(game.models),
        limits=game.limits,
        repeat=repeat,
    )
    if finished := _finished(folder, config):
        return GatePlay(finished, _scores(finished), _cost(finished, 0.0))
    began = time.monotonic()
    played = play_run(folder, config, scaffold, game.make_models(), game.jobs)
    seconds = time.monotonic() - began
    faults = [result for result in played.failures if result.failure in _OWN]
    others = [result for result in played.failures if result.failure not in _OWN]
    if others:
        raise RunError(
            f"{len(others)} episodes of '{scaffold.name}' failed ({others[0].failure}): {others[0].message}",
            "nothing was decided; the same command tries them again",
        )
    fault = faults[0].message if faults else None
    return GatePlay(played.folder, _scores(played.folder), _cost(played.folder, seconds), fault)


def _finished(folder: Path, config: RunConfig) -> RunFolder | None:
    """The run in `folder`, if all its episodes have been played."""
    if not (folder / "run.json").is_file():
        return None
    run = RunFolder.read(folder)
    results = [run.result(spec) for spec in config.specs()]
    return run if all(result is not None and result.finished for result in results) else None


def _scores(folder: RunFolder) -> dict[str, float]:
    return {f"{spec.task}/{spec.seed}": result.progress for spec, result in folder.finished()}


def _cost(folder: RunFolder, seconds: float) -> Cost:
    cost = Cost(seconds=round(seconds, 3))
    for spec in folder.config.specs():
        done = read_behaviour(folder.trace_path(spec))
        cost += Cost(
            calls=done.calls, tokens_in=done.prompt_tokens, tokens_out=done.completion_tokens, tokens_cached=done.cached
        )
    return cost
