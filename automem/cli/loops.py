"""Which cell of an experiment an evolve or train folder belongs to, told by what was asked of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from automem.evolve.config import EvolveConfig
    from automem.launch.cells import Cell
    from automem.train.config import TrainConfig

#: Members of a list that a note tells at most.
_TOLD = 6


def evolve_differences(cell: Cell, asked: EvolveConfig) -> list[str]:
    """In what an evolve folder is not one of `cell`, which is of loop 1; empty if it is one."""
    from automem.config import parse_seeds
    from automem.episode import Limits, ModelSpec
    from automem.evolve.changes import KINDS
    from automem.launch.match import game_differences, model_differences, scaffold_differences
    from automem.launch.schema import Loop1

    stage = cell.stage
    assert isinstance(stage, Loop1)
    proposer = f"openai:{stage.proposer_model}" if stage.proposer_model else stage.proposer
    named = proposer == asked.proposer or proposer == asked.proposer.partition(":")[0]
    return [
        *game_differences(cell, asked.env, asked.tasks, asked.options, Limits(**asked.limits)),
        *scaffold_differences(cell, asked.start, asked.start_digest),
        *model_differences(cell, {"gameplay": ModelSpec(**asked.models["gameplay"])}),
        *_others(
            {
                "proposer is": (asked.proposer, asked.proposer if named else proposer),
                "gate is": (asked.gate.partition(" ")[0], stage.gate),
                "gate seeds are": (asked.gate_seeds, parse_seeds(cell.of_env(stage.gate_seeds))),
                "report seeds are": (asked.report_seeds, parse_seeds(cell.of_env(stage.report_seeds))),
                "kinds of change are": (list(asked.allowed), stage.allow or KINDS),
                "revisions are": (asked.budget.revisions, stage.revisions),
            }
        ),
    ]


def train_differences(cell: Cell, asked: TrainConfig) -> list[str]:
    """In what a train folder is not one of `cell`, which is of loop 2; empty if it is one."""
    from automem.cli.run import by_group
    from automem.cli.train import GROUPS, load_recipe
    from automem.config import parse_seeds
    from automem.episode import Limits
    from automem.errors import UsageError
    from automem.launch.match import game_differences, scaffold_differences
    from automem.launch.schema import Loop2

    stage = cell.stage
    assert isinstance(stage, Loop2)
    try:
        recipe = load_recipe(cell.of_env(stage.recipe), by_group(stage.set, GROUPS), stage.select)
    except UsageError as error:
        return [f"the recipe of the cell cannot be loaded: {error.message}"]
    gate = parse_seeds(cell.of_env(stage.gate_seeds)) if stage.gate_seeds else asked.gate_seeds
    changed = [] if recipe.digest == asked.recipe.digest else [f"its recipe is another {asked.recipe.name}"]
    return [
        *game_differences(cell, asked.env, asked.tasks, asked.options, Limits(**asked.limits)),
        *scaffold_differences(cell, asked.scaffold, asked.scaffold_digest),
        *changed,
        *_others(
            {
                "base is": (asked.base, cell.model.name),
                "selector is": (asked.selector, f"judge {stage.judge}" if stage.judge else recipe.selection.selector),
                "engine is": (asked.engine, stage.engine),
                "training seeds are": (asked.training_seeds, cell.seeds),
                "gate seeds are": (asked.gate_seeds, gate),
                "report seeds are": (asked.report_seeds, parse_seeds(cell.of_env(stage.report_seeds))),
                "iterations are": (asked.iterations, stage.iterations),
            }
        ),
    ]


def _others(values: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    """What is there where something else is wanted; the order of lists does not matter."""
    for what, (there, wanted) in values.items():
        if isinstance(there, list):
            if set(there) != set(wanted):
                more = ", …" if len(there) > _TOLD else ""
                yield f"its {what} {', '.join(map(str, there[:_TOLD])) or 'none'}{more}"
        elif there != wanted:
            yield f"its {what} {there}"
