"""Run folders below a folder: those of a launch, and of whatever else was gathered there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from automem.episode import EpisodeSpec
from automem.errors import UsageError
from automem.play.folder import RunFolder, refuse_lost

#: File -> what kind of folder it marks. What stands below such a folder is its own.
_MARKS = {"run.json": "runs", "evolve.json": "evolved", "train.json": "trained"}
#: Code that was copied into the folder of a launch.
_SNAPSHOT = "snapshot"
#: Part `3` of the seeds of `crafter-v0` is played into `crafter-v0.3`.
_PART = re.compile(r"(.+)\.\d+")


@dataclass
class Found:
    """Folders by kind, in alphabetical order of their paths."""

    runs: list[Path] = field(default_factory=list)
    evolved: list[Path] = field(default_factory=list)
    trained: list[Path] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs or self.evolved or self.trained)


def find_runs(places: Iterable[Path]) -> Found:
    """The run, evolve and train folders at and below `places`.

    Raises:
        UsageError: one is a run whose `run.json` is gone.
    """
    found = Found()
    for place in places:
        for folder, kind in _walk(place):
            getattr(found, kind).append(folder)
    return found


def _walk(folder: Path) -> Iterator[tuple[Path, str]]:
    for mark, kind in _MARKS.items():
        if (folder / mark).is_file():
            yield folder, kind
            return
    refuse_lost(folder)
    launched = (folder / "launch.json").is_file()
    for below in sorted(folder.iterdir()) if folder.is_dir() else []:
        if below.is_dir() and not below.is_symlink() and not (launched and below.name == _SNAPSHOT):
            yield from _walk(below)


class PooledRun(RunFolder):
    """Several run folders that a cell's seeds were dealt to, as one."""

    def __init__(self, path: Path, parts: Sequence[RunFolder]) -> None:
        """`parts` differ in their seeds only."""
        config = parts[0].config
        for part in parts[1:]:
            config = part.config.extended(config)
        super().__init__(path, config, parts[0].record)
        self._parts = parts

    def trace_path(self, spec: EpisodeSpec) -> Path:
        """Where the trace of `spec` is: in the part that plays its seed."""
        return self._part(spec).trace_path(spec)

    def memory_path(self, spec: EpisodeSpec) -> Path:
        """Where its memory directory is."""
        return self._part(spec).memory_path(spec)

    def _part(self, spec: EpisodeSpec) -> RunFolder:
        return next(part for part in self._parts if spec.seed in part.config.seeds)


def pooled(paths: Sequence[Path]) -> list[RunFolder]:
    """The runs at `paths`; those that are parts of one cell, `NAME.1`, `NAME.2`, …, as one run."""
    groups: dict[Path, list[RunFolder]] = {}
    for path in paths:
        part = _PART.fullmatch(path.name)
        groups.setdefault(path.with_name(part[1]) if part else path, []).append(RunFolder.read(path))
    return [run for path, runs in groups.items() for run in (_joined(path, runs) if len(runs) > 1 else runs)]


def _joined(path: Path, runs: list[RunFolder]) -> list[RunFolder]:
    """One run, or the runs as they are where their names alone made them look like parts."""
    first, seeds = runs[0], [seed for run in runs for seed in run.config.seeds]
    same = all(not run.config.differences(first.config) and run.config.tasks == first.config.tasks for run in runs)
    return [PooledRun(path, runs)] if same and len(set(seeds)) == len(seeds) else runs


def refuse_empty(found: Found, places: Sequence[Path]) -> None:
    """Raise UsageError when nothing was found."""
    if found or not places:
        return
    place = places[0]
    if place.is_dir():
        raise UsageError(f"no run in '{place}', nor below it", "runs are written by `automem run -o` and launches")
    raise UsageError(f"no run at '{place}': there is no such folder", "runs are written by `automem run -o`")
