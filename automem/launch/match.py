"""Which cell of an experiment a run belongs to, told by what was played and not by where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from automem.differences import differences as config_differences
from automem.episode import Limits, ModelSpec
from automem.errors import UsageError
from automem.launch.cells import Cell
from automem.launch.experiment import VARIANT, Experiment
from automem.launch.folder import FREE, Record
from automem.launch.schema import OUT, ModelChoice
from automem.messages import Role
from automem.models import model_spec
from automem.play.folder import RunConfig
from automem.plugins import plain_name
from automem.scaffold import spec as scaffolds

#: Keys of stages that say how episodes are played, and not which.
_HOW = re.compile(r"stages\.[^:]*\.(jobs|split|needs|resources): ")


def differences(cell: Cell, run: RunConfig) -> list[str]:
    """In what a run is not one of `cell`; empty if it is one. It may have more seeds, and fewer."""
    found = game_differences(cell, run.env, run.tasks, run.options, run.limits)
    if not set(run.seeds) & set(cell.seeds):
        found.append("it has none of the seeds")
    if plain_name(run.env) == cell.game.env:
        found += scaffold_differences(cell, run.scaffold, run.scaffold_digest)
    return found + list(model_differences(cell, run.models))


def game_differences(
    cell: Cell, env: str, tasks: Sequence[str], options: Mapping[str, Any], limits: Limits
) -> list[str]:
    """In what the game of `cell` is not this one."""
    wanted, _, task = cell.game.play.partition("/")
    found = [] if plain_name(env) == wanted else [f"it plays {env}"]
    if task and task not in tasks:
        found.append(f"its tasks are {', '.join(tasks)}")
    if options != cell.game.options:
        found.append(f"its options are {options or 'none'}")
    if limits != cell.game.limits:
        found.append(f"its limits are {limits.model_dump(exclude_none=True) or 'none'}")
    return found


def scaffold_differences(cell: Cell, name: str, digest: str) -> list[str]:
    """In what the scaffold of `cell` is not the one called `name` with `digest`."""
    wanted = cell.of_env(cell.agent.scaffold)
    if wanted.startswith(OUT):
        return []
    try:
        scaffold = scaffolds.load(wanted, cell.agent.set)
    except UsageError as error:
        return [f"the scaffold of the cell cannot be loaded: {error.message}"]
    if scaffold.name != name:
        return [f"its scaffold is {name}"]
    changed = f" or without {', '.join(cell.agent.set)}" if cell.agent.set else ""
    return [] if scaffold.digest == digest else [f"its {name} is another version{changed}"]


def model_differences(cell: Cell, models: Mapping[Role, ModelSpec]) -> Iterable[str]:
    """In what the models of `cell` are not `models`."""
    wanted: dict[Role, ModelChoice] = {"gameplay": cell.model}
    if memory := cell.memory_model():
        wanted["memory"] = memory
    for role in dict.fromkeys([*wanted, *models]):
        here, there = wanted.get(role), models.get(role)
        if here is None or there is None or here.name != there.name:
            yield f"its {role} model is {there.name if there else 'none of its own'}"
        elif not here.name.startswith("local:"):
            told = model_spec(here.name, here.settings).settings
            others = [key for key in here.settings if key in told and told[key] != there.settings.get(key)]
            yield from (f"its {role} model has {key} {there.settings.get(key)}" for key in others)


def launch_differences(experiment: Experiment, record: Record) -> list[str]:
    """The keys in which a launch of `experiment` was asked for otherwise; those that change no score do not count.

    Raises:
        UsageError: what was asked for cannot be read any more.
    """
    launched = record.asked()
    if launched is None or record.experiment.partition(VARIANT)[0] != experiment.name.partition(VARIANT)[0]:
        return []
    return [told for told in config_differences(experiment.spec, launched, FREE) if not _HOW.match(told)]
