"""What the commands of an experiment would refuse, said before anything is launched: names that nothing goes by.

The checks are those of the commands themselves. What cannot be known on this machine passes: a model on a hub, a task
of an environment whose package is missing, a folder that the experiment makes itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from automem.launch.cells import Cell
    from automem.launch.cluster import Cluster
    from automem.launch.experiment import Experiment
    from automem.launch.schema import Loop1, Loop2


def check_names(asked: Experiment, site: Cluster, out: Path) -> None:
    """Look up the tasks, scaffolds, models, recipes and kinds of change that an experiment names.

    Raises:
        UsageError: there is none of a name; the message has file and key.
    """
    from automem.launch.schema import Loop1, Loop2

    source = asked.folder / "experiment.yaml"
    for name, game in asked.spec.games.items():
        with _named(f"{source}: games.{name}.play"):
            _check_game(game.play)
    for cell in asked.cells():
        with _named(f"{source}: agents.{cell.agent_name}.scaffold"):
            _check_scaffold(cell)
        for name in _models(cell):
            with _named(f"{source}: models.{name}"):
                _check_model(cell, name, site, out)
        with _named(f"{source}: stages.{cell.stage_name}"):
            match cell.stage:
                case Loop1() as stage:
                    _check_loop1(cell, stage)
                case Loop2() as stage:
                    _check_loop2(cell, stage)


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Errors begin with where the name stands; of what is not installed here nothing is said."""
    from automem.errors import NotInstalled, UsageError

    try:
        yield
    except NotInstalled:
        return
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", error.hint) from error


def _check_game(play: str) -> None:
    from automem import env as envs

    env, task = envs.split_game(play)
    if task:
        envs.check_task(env, task)


def _check_scaffold(cell: Cell, more: Mapping[str, Any] | None = None) -> None:
    from automem.cli.run import check_fits
    from automem.launch.schema import OUT
    from automem.scaffold.spec import load

    name = cell.of_env(cell.agent.scaffold)
    if not name.startswith(OUT):
        check_fits(load(name, {**cell.agent.set, **(more or {})}), cell.game.env)


def _models(cell: Cell) -> list[str]:
    """The names, in `models`, of what plays."""
    memory = cell.of_env(cell.agent.memory) if cell.agent.memory is not None else None
    return [cell.agent.model, *([memory] if memory in cell.spec.models else [])]


def _check_model(cell: Cell, name: str, site: Cluster, out: Path) -> None:
    from automem.launch.render import SERVED_HERE
    from automem.models import check_model

    choice = cell.spec.model(name)
    kind, _, rest = choice.name.partition(":")
    made = out.resolve()
    if kind in ("local", "replay") and any(Path(part).resolve().is_relative_to(made) for part in rest.split("+")):
        return  # an earlier stage may make it
    check_model(choice.name, choice.settings)
    if kind == "openai" and site.endpoint is None and rest.partition(":")[0] in SERVED_HERE:
        check_model(rest, {})


def _check_loop1(cell: Cell, stage: Loop1) -> None:
    from automem.cli.evolve import GROUPS, kinds
    from automem.cli.run import by_group
    from automem.config import validate
    from automem.evolve.config import LoopBudget

    groups = by_group(stage.set, GROUPS)
    kinds(stage.allow or ())
    validate(LoopBudget, {"revisions": stage.revisions, **groups["loop"]}, "-s loop")
    _check_scaffold(cell, groups["scaffold"])


def _check_loop2(cell: Cell, stage: Loop2) -> None:
    from automem.cli.run import by_group
    from automem.cli.train import GROUPS, load_recipe
    from automem.models import check_model

    load_recipe(cell.of_env(stage.recipe), by_group(stage.set, GROUPS), stage.select)
    for name in (stage.judge, None if stage.engine == "rules" else stage.engine):
        if name is not None:
            check_model(name, {})
