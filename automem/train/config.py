"""What is asked of loop 2, and that its seeds are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from automem.differences import differences
from automem.errors import UsageError
from automem.train.recipe import Recipe

#: Gate seeds that are taken where none are asked for; with fewer, small gains are missed.
MOST_GATE_SEEDS = 40


class TrainConfig(BaseModel):
    """What was asked of the loop; `train.json`. How many iterations may be raised later."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: list[str]
    env: str
    tasks: list[str]
    options: dict[str, Any]
    scaffold: str
    scaffold_digest: str
    base: str
    base_digest: str | None = None
    settings: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    recipe: Recipe
    selector: str
    engine: str
    gate: str
    training_seeds: list[int]
    gate_seeds: list[int]
    report_seeds: list[int]
    serve: str = "none"
    iterations: int = 1

    def check_seeds(self) -> None:
        """Raise UsageError when a seed has two uses: what was trained or selected on says nothing about the rest."""
        sets = {"training": self.training_seeds, "gate": self.gate_seeds, "report": self.report_seeds}
        names = list(sets)
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                if both := sorted(set(sets[one]) & set(sets[other])):
                    shown = ", ".join(map(str, both[:5])) + (", …" if len(both) > 5 else "")
                    raise UsageError(
                        f"seeds {shown} are {one} seeds and {other} seeds",
                        "training, gate and report seeds must differ",
                    )

    def differences(self, other: TrainConfig) -> list[str]:
        """The settings in which two configs differ, the number of iterations aside."""
        return differences(self, other, free=("iterations",))


def default_gate_seeds(training: Sequence[int], report: Sequence[int]) -> list[int]:
    """As many gate seeds as there are report seeds, at most MOST_GATE_SEEDS: the first ones above all in use."""
    first = 1 + max([*training, *report])
    return list(range(first, first + min(len(report), MOST_GATE_SEEDS)))


def play_settings(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the base plays with: those of the run it played, with `given` ones on top."""
    return {key: value for key, value in recorded.items() if key != "weights"} | dict(given)
