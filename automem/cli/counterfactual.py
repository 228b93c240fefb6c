"""Counterfactual labels for `automem evict fit`: what they cost is told before anything is played."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from automem.evict.fit import Episode
    from automem.play.counterfactual import Trial
    from automem.play.folder import RunFolder


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line; `file` takes the outcomes of trials."""

    episodes: int | None
    horizon: int | None
    jobs: int
    yes: bool
    dry_run: bool
    file: Path


def labelled(runs: list[Path], asked: Asked) -> list[Episode] | None:
    """The episodes with the losses of their steps as labels; None for a dry run.

    Raises:
        UsageError: nothing to play, or nobody said --yes to what it costs.
    """
    from automem.errors import UsageError
    from automem.play.counterfactual import read_outcomes, trials
    from automem.play.folder import RunFolder
    from automem.results.episodes import with_losses

    folders = [RunFolder.read(run) for run in runs]
    chosen = {folder.name: trials(folder, asked.episodes, horizon=asked.horizon) for folder in folders}
    everything = [trial for found in chosen.values() for trial in found]
    done = read_outcomes(asked.file, everything)
    owed = [trial for trial in everything if trial.key not in done]
    print(_told(owed, len(done)), file=sys.stdout if asked.dry_run else sys.stderr)
    if asked.dry_run:
        return None
    if owed and not asked.yes:
        raise UsageError("counterfactual labels replay and play episodes with the run's model", "say --yes to do it")
    made = []
    for folder in folders:
        outcomes = asyncio.run(_play(folder, chosen[folder.name], asked))
        made += with_losses(folder, chosen[folder.name], outcomes)
    return made


async def _play(folder: RunFolder, chosen: list[Trial], asked: Asked) -> Any:
    from automem.models import make_model
    from automem.play.counterfactual import play_trials

    models: Any = {role: make_model(spec.name, spec.settings) for role, spec in folder.config.models.items()}
    try:
        return await play_trials(folder, chosen, models, asked.jobs, asked.file)
    finally:
        for model in models.values():
            await model.close()


def _told(owed: list[Trial], done: int) -> str:
    from automem.play.counterfactual import cost

    takes = cost(owed)
    before = f" ({done:,} are done)" if done else ""
    return (
        f"counterfactual labels: {takes.trials:,} episodes to replay{before}, each without one step: "
        f"{takes.replayed:,} steps without a model, then {takes.steps:,} steps to play, about {takes.calls:,} model "
        f"calls and {takes.tokens:,} prompt tokens"
    )
