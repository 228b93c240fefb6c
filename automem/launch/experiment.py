"""`Experiment`: what a table or a question needs played, trained and compared; a folder with `experiment.yaml`.

Each of its stages becomes a `Job`, each cell (one game with one agent) a task of it, with a folder of its own:
`OUT/<stage>/<game>-<agent>`. The last job makes the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from automem import plugins
from automem.config import overridden, read_yaml, validate
from automem.errors import UsageError, did_you_mean
from automem.launch.cells import Cell, cells, cells_of, commands, server
from automem.launch.job import Command, Job
from automem.launch.problems import TABLE, first_problem
from automem.launch.schema import OUT, ExperimentSpec, Loop2, stage_needs
from automem.plugins import PluginKind

EXPERIMENT = PluginKind("experiment", "experiments", "experiment.yaml")
EXPECTED = "expected.yaml"
#: Stands between the name of an experiment and that of a variant.
VARIANT = "@"


@dataclass(frozen=True)
class Experiment:
    """An experiment that was read and checked. `asked` is what it was asked for by."""

    name: str
    asked: str
    folder: Path
    spec: ExperimentSpec

    @property
    def expected(self) -> Path | None:
        """The file with the published values, if there is one."""
        path = self.folder / EXPECTED
        return path if path.is_file() else None

    def cells(self) -> list[Cell]:
        """All cells, stage by stage."""
        return list(cells(self.spec))

    def jobs(self, out: Path) -> tuple[Job, ...]:
        """One job for each stage, in the order of the file, and the table."""
        stages = [self._job(name, out) for name in self.spec.stages]
        table = Job(name=TABLE, stage="aggregate", tasks=(self._table(out),), needs=tuple(self.spec.stages))
        return (*stages, table)

    def missing(self, out: Path) -> list[tuple[str, Path, str]]:
        """Adapters that must be there before and are not: stage, folder, the command that makes it."""
        found = []
        for name in self.spec.stages:
            served = server(self.spec, name, out)
            for adapter, path in (served.adapters if served else {}).items():
                choice = self.spec.adapters[adapter]
                if not choice.path.startswith(OUT) and not (Path(path) / "adapter_config.json").is_file():
                    found.append((name, Path(path), choice.made_by))
        return found

    def _job(self, name: str, out: Path) -> Job:
        stage, served = self.spec.stages[name], server(self.spec, name, out)
        usual = "cpu" if served is None else "train" if isinstance(stage, Loop2) else "serve"
        return Job(
            name=name,
            stage=stage.do,
            tasks=tuple(command for cell in cells_of(self.spec, name) for command in commands(cell, out)),
            needs=stage_needs(stage),
            server=served,
            resources=stage.resources or usual,
        )

    def _table(self, out: Path) -> Command:
        return ("automem", "table", str(out), *((self.asked, "--paper") if self.expected else ()))


def load_experiment(name_or_path: str, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment NAME, or one in a folder, as its variant where `@VARIANT` follows.

    `overrides` are dotted keys of `experiment.yaml`; a stage that is set to null is left out.

    Raises:
        UsageError: there is none, or something in it is wrong; names file and key.
    """
    place, _, variant = name_or_path.partition(VARIANT)
    folder = plugins.find(EXPERIMENT, place)
    source = folder / EXPERIMENT.marker
    before = read_yaml(source)
    changes = {**(_variant(before, variant, source) if variant else {}), **(overrides or {})}
    data = overridden(before, changes)
    _leave_out(data, before, changes, source)
    spec = validate(ExperimentSpec, data, f"{source} with {', '.join(changes)}" if changes else source, before)
    if problem := first_problem(spec):
        raise UsageError(f"{source}: {problem[0]}", problem[1])
    return Experiment(folder.name + (VARIANT + variant if variant else ""), name_or_path, folder, spec)


def _leave_out(data: dict[str, Any], before: Mapping[str, Any], changes: Mapping[str, Any], source: Path) -> None:
    """Take the stages out of `data` that are set to null."""
    known = before.get("stages")
    if not isinstance(known, dict) or not isinstance(data["stages"], dict):
        return
    for key, value in changes.items():
        group, _, name = key.partition(".")
        if group == "stages" and value is None and "." not in name and name not in known:
            hint = did_you_mean(name, map(str, known))
            raise UsageError(f"{source} with {key}: there is no stage '{name}' to leave out", hint)
    data["stages"] = {name: stage for name, stage in data["stages"].items() if stage is not None}


def _variant(data: dict[str, Any], name: str, source: Path) -> dict[str, Any]:
    known = data.get("variants")
    found = known.get(name) if isinstance(known, dict) else None
    if not isinstance(found, dict):
        raise UsageError(f"{source}: there is no variant '{name}'", did_you_mean(name, known or ()))
    return found
