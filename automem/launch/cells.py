"""The cells of an experiment, and the exact command line of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from automem.launch.job import Command, Server
from automem.launch.schema import (
    OUT,
    Adapter,
    AgentChoice,
    AnyStage,
    ByEnv,
    Evaluate,
    ExperimentSpec,
    Game,
    Loop1,
    Loop2,
    ModelChoice,
    by_env,
    seeds_of,
)

_SERVED = "openai:"
#: Text that needs no quotes, unless YAML takes it for something else, such as `true`.
_WORD = re.compile(r"[A-Za-z_][\w./-]*")


@dataclass(frozen=True)
class Cell:
    """One game with one agent in one stage."""

    spec: ExperimentSpec
    stage_name: str
    game_name: str
    agent_name: str

    @property
    def id(self) -> str:
        """Its folder below that of the experiment."""
        return f"{self.stage_name}/{self.game_name}-{self.agent_name}"

    @property
    def stage(self) -> AnyStage:
        """The stage that it belongs to."""
        return self.spec.stages[self.stage_name]

    @property
    def game(self) -> Game:
        """What is played."""
        return self.spec.games[self.game_name]

    @property
    def agent(self) -> AgentChoice:
        """Who plays."""
        return self.spec.agents[self.agent_name]

    @property
    def model(self) -> ModelChoice:
        """The model that commits actions."""
        return self.spec.model(self.agent.model)

    @property
    def seeds(self) -> list[int]:
        """The seeds of the game."""
        return seeds_of(self.game.seeds, f"games.{self.game_name}.seeds")

    def of_env(self, choice: ByEnv) -> str:
        """What is chosen for the cell's environment."""
        return by_env(choice, self.game.env) or ""

    def scaffold(self, out: Path) -> str:
        """Name or path of the scaffold."""
        return _at(self.of_env(self.agent.scaffold), out)

    def memory(self) -> ModelChoice | Adapter | None:
        """The model of the memory role, if it has its own."""
        if self.agent.memory is None:
            return None
        name = self.of_env(self.agent.memory)
        return self.spec.adapters.get(name) or self.spec.model(name)

    def memory_model(self) -> ModelChoice | None:
        """That model as it is asked: an adapter is known to the server by its name."""
        memory = self.memory()
        if isinstance(memory, Adapter):
            assert self.agent.memory is not None
            return ModelChoice(name=_SERVED + self.of_env(self.agent.memory), settings=self.model.settings)
        return memory

    def folders(self, out: Path) -> list[Path]:
        """Where it is played; several where its seeds are dealt out."""
        stage = self.stage
        parts = min(stage.split, len(self.seeds)) if isinstance(stage, Evaluate) else 1
        return [out / self.id] if parts == 1 else [out / f"{self.id}.{number}" for number in range(1, parts + 1)]


def cells(spec: ExperimentSpec) -> Iterator[Cell]:
    """All cells, stage by stage."""
    for name in spec.stages:
        yield from cells_of(spec, name)


def cells_of(spec: ExperimentSpec, stage: str) -> Iterator[Cell]:
    """The cells of one stage, game by game."""
    for game in spec.stages[stage].games:
        for agent in spec.stages[stage].agents:
            yield Cell(spec, stage, game, agent)


def commands(cell: Cell, out: Path) -> list[Command]:
    """The command lines that play, evolve or train a cell: one for each of its folders."""
    match cell.stage:
        case Evaluate():
            folders = cell.folders(out)
            dealt = [cell.seeds[number :: len(folders)] for number in range(len(folders))]
            return [_run(cell, seeds, out, folder) for seeds, folder in zip(dealt, folders, strict=True)]
        case Loop1() as stage:
            return [_evolve(cell, stage, out)]
        case Loop2() as stage:
            return [_train(cell, stage, out)]


def server(spec: ExperimentSpec, stage: str, out: Path) -> Server | None:
    """What the jobs of a stage need served: its `openai:` model with the adapters of its agents."""
    found = list(cells_of(spec, stage))
    models = [cell.model for cell in found] + [cell.memory_model() for cell in found]
    served = [model.name.removeprefix(_SERVED) for model in models if model and model.name.startswith(_SERVED)]
    if not served:
        return None
    adapters = {
        cell.of_env(cell.agent.memory): _at(memory.path, out)
        for cell in found
        if cell.agent.memory is not None and isinstance(memory := cell.memory(), Adapter)
    }
    return Server(model=next(name for name in served if name not in adapters), adapters=adapters)


def _run(cell: Cell, seeds: list[int], out: Path, folder: Path) -> Command:
    memory = cell.memory_model()
    return (
        *("automem", "run", cell.game.play, "--scaffold", cell.scaffold(out), "--model", cell.model.name),
        *(("--memory-model", memory.name) if memory else ()),
        *("--seeds", _seeds(seeds), "--jobs", str(cell.stage.jobs), "--out", str(folder)),
        *_set("", cell.agent.set),
        *_played(cell),
        *(_set("memory_model.", memory.settings) if memory else ()),
    )


def _evolve(cell: Cell, stage: Loop1, out: Path) -> Command:
    return (
        *("automem", "evolve", cell.game.play, "--from", cell.scaffold(out), "--model", cell.model.name),
        *("--gate-seeds", cell.of_env(stage.gate_seeds), "--report-seeds", cell.of_env(stage.report_seeds)),
        *("--proposer", stage.proposer),
        *(("--proposer-model", stage.proposer_model) if stage.proposer_model else ()),
        *("--gate", stage.gate),
        *(("--allow", ",".join(stage.allow)) if stage.allow else ()),
        *(("--aa",) if stage.control else ()),
        *("--revisions", str(stage.revisions), "--jobs", str(stage.jobs), "--out", str(out / cell.id)),
        *_set("", cell.agent.set),
        *_played(cell),
        *_set("", stage.set),
    )


def _train(cell: Cell, stage: Loop2, out: Path) -> Command:
    runs = Cell(cell.spec, stage.runs, cell.game_name, cell.agent_name).folders(out)
    return (
        *("automem", "train", *map(str, runs), "--recipe", cell.of_env(stage.recipe)),
        *(("--select", stage.select) if stage.select else ()),
        *(("--judge", stage.judge) if stage.judge else ()),
        *("--report-seeds", cell.of_env(stage.report_seeds)),
        *(("--gate-seeds", cell.of_env(stage.gate_seeds)) if stage.gate_seeds else ()),
        *("--engine", stage.engine, "--iterations", str(stage.iterations)),
        *("--jobs", str(stage.jobs), "--out", str(out / cell.id)),
        *_set("model.", cell.model.settings),
        *_set("", stage.set),
    )


def _played(cell: Cell) -> Command:
    """The settings of game and model."""
    limits = cell.game.limits.model_dump(exclude_none=True)
    return (
        *_set("env.", cell.game.options),
        *_set("limits.", limits),
        *_set("model.", cell.model.settings),
    )


def _set(prefix: str, values: Mapping[str, Any]) -> Command:
    return tuple(word for key, value in values.items() for word in ("-s", f"{prefix}{key}={_written(value)}"))


def _written(value: Any) -> str:
    """A value as `-s` reads it: as YAML."""
    plain = isinstance(value, str) and _WORD.fullmatch(value) and yaml.safe_load(value) == value
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def _seeds(seeds: list[int]) -> str:
    """Seeds as `--seeds` takes them: `42-51` where they follow on each other."""
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}-{seeds[-1]}"
    return ",".join(map(str, seeds))


def _at(path: str, out: Path) -> str:
    return path.replace(OUT, str(out))
