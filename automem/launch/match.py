"""Which cell of an experiment a run belongs to, told by what was played and not by where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from automem.episode import ModelSpec
from automem.errors import UsageError
from automem.launch.cells import Cell
from automem.launch.schema import OUT, ModelChoice
from automem.messages import Role
from automem.models import model_spec
from automem.play.folder import RunConfig
from automem.plugins import plain_name
from automem.scaffold import spec as scaffolds


def differences(cell: Cell, run: RunConfig) -> list[str]:
    """In what a run is not one of `cell`; empty if it is one. It may have more seeds, and fewer."""
    env, _, task = cell.game.play.partition("/")
    found = [] if plain_name(run.env) == env else [f"it plays {run.env}"]
    if task and task not in run.tasks:
        found.append(f"its tasks are {', '.join(run.tasks)}")
    if not set(run.seeds) & set(cell.seeds):
        found.append("it has none of the seeds")
    if run.options != cell.game.options:
        found.append(f"its options are {run.options or 'none'}")
    if run.limits != cell.game.limits:
        found.append(f"its limits are {run.limits.model_dump(exclude_none=True) or 'none'}")
    if not found or env == plain_name(run.env):
        found += scaffold_differences(cell, run.scaffold, run.scaffold_digest)
    return found + list(model_differences(cell, run.models))


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


def nearest_cell(cells: Iterable[Cell], run: RunConfig) -> tuple[Cell, list[str]] | None:
    """The cell that a run differs least from, and in what."""
    found = [(cell, differences(cell, run)) for cell in cells]
    return min(found, key=lambda pair: len(pair[1])) if found else None
