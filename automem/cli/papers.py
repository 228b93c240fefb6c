"""What `automem table` is given: run folders and experiments; and published values beside ours."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from automem.cli.table import Format
    from automem.launch.cells import Cell
    from automem.launch.experiment import Experiment
    from automem.launch.folder import LaunchFolder
    from automem.play.folder import RunFolder
    from automem.results.found import Found
    from automem.results.published import Compared, Pool


@dataclass
class Given:
    """The arguments of `automem table`, told apart."""

    found: Found
    places: list[Path]
    experiments: list[Experiment] = field(default_factory=list)


def given(words: Sequence[str], paper: bool) -> Given:
    """`words` as folders with runs, and with `paper` as experiments.

    Raises:
        UsageError: one is neither.
    """
    from automem.errors import UsageError
    from automem.launch.experiment import load_experiment
    from automem.results.found import find_runs, refuse_empty

    places = [Path(word) for word in words if not _names_experiment(word)]
    names = [word for word in words if _names_experiment(word)]
    if names and not paper:
        raise UsageError(
            f"'{names[0]}' is an experiment, not a run", "with --paper it is compared with what was published"
        )
    for place in places:
        if not place.exists() and paper and place.name == str(place):
            load_experiment(str(place))  # which says what is near that name
    found = find_runs(places)
    refuse_empty(found, places)
    return Given(found, places, [load_experiment(name) for name in names])


def _names_experiment(word: str) -> bool:
    from automem import plugins
    from automem.launch.experiment import EXPERIMENT
    from automem.results.found import find_runs

    path = Path(word)
    if path.is_dir() and ((path / "launch.json").is_file() or find_runs([path])):
        return False
    name = word.partition("@")[0]
    return name in plugins.available(EXPERIMENT) or plugins.is_folder(EXPERIMENT, name)


def shown_runs(found: Found) -> list[RunFolder]:
    """The runs of a table: run folders, and of loops what they reported on."""
    from automem.results.found import PooledRun, pooled

    runs = pooled(found.runs)
    for folder in (*found.evolved, *found.trained):
        parts = _evolved(folder) if folder in found.evolved else _trained(folder)
        for part, digest in parts:
            runs += [PooledRun(folder / part, [run]) for run in _played(folder, "report", digest)]
    return runs


def compared(asked: Given, sample_se: bool) -> list[Compared]:
    """Each experiment's published values beside ours; where none is named, those of the launches that were given.

    Raises:
        UsageError: no experiment is named or launched, or one has no published values.
    """
    from automem.errors import UsageError
    from automem.launch.experiment import load_experiment

    experiments = asked.experiments or [load_experiment(name) for name in _launched(asked.places)]
    if not experiments:
        raise UsageError("--paper of which experiment?", "name one as well, for example main-table")
    launches = _launches(asked.found)
    return [_compared(experiment, asked.found, launches, sample_se) for experiment in experiments]


def _launched(places: Sequence[Path]) -> list[str]:
    from automem.launch.folder import FILE, LaunchFolder

    names = [LaunchFolder.read(place).record.experiment for place in places if (place / FILE).is_file()]
    return list(dict.fromkeys(names))


def _launches(found: Found) -> list[LaunchFolder]:
    """The launches that folders are of."""
    from automem.launch.folder import FILE, LaunchFolder

    above = [parent for path in (*found.runs, *found.evolved, *found.trained) for parent in path.resolve().parents]
    return [LaunchFolder.read(path) for path in dict.fromkeys(above) if (path / FILE).is_file()]


def _compared(experiment: Experiment, found: Found, launches: Sequence[LaunchFolder], sample_se: bool) -> Compared:
    from automem.errors import UsageError
    from automem.launch.experiment import load_experiment
    from automem.results.published import compare, load_expected

    if experiment.expected is None:
        raise UsageError(f"experiment '{experiment.name}' has no published values", "`automem table RUN` shows ours")
    cells = experiment.cells()
    # A variant may leave stages out; their rows are missing then, and not wrong.
    whole = load_experiment(str(experiment.folder)).cells()
    expected = load_expected(experiment.expected, [name for cell in whole for name in names_of(cell)])
    pools, notes = _pools(cells, found)
    return compare(experiment.name, expected, pools, [*_overridden(experiment, launches), *notes], sample_se)


def _overridden(experiment: Experiment, launches: Sequence[LaunchFolder]) -> Iterator[str]:
    """A note for each launch of the experiment that was asked for with other keys."""
    from automem.errors import UsageError
    from automem.launch.match import launch_differences

    for launch in launches:
        try:
            found = launch_differences(experiment, launch.record)
        except UsageError as error:
            found = [f"they cannot be read any more ({error.message})"]
        if found:
            yield f"{launch.shown} was launched with other settings than {experiment.name} has: {'; '.join(found)}."


def names_of(cell: Cell) -> list[str]:
    """What the values of a cell are called: by its id, and those of loops by what is meant of them."""
    parts = {"evaluate": (), "loop1": ("start", "best"), "loop2": ("base", "best")}[cell.stage.do]
    return [f"{cell.id}/{part}" for part in parts] or [cell.id]


def _pools(cells: Sequence[Cell], found: Found) -> tuple[dict[str, Pool], list[str]]:
    """The episodes of each cell, and a note for each folder that is of none."""
    from automem.launch.match import differences
    from automem.play.folder import RunFolder
    from automem.results.published import Pool

    runs: dict[str, list[RunFolder]] = {}
    notes: list[str] = []
    evaluated = [cell for cell in cells if cell.stage.do == "evaluate"]
    for run in map(RunFolder.read, found.runs):
        for cell in _cells_of(run.path, [(cell, differences(cell, run.config)) for cell in evaluated], notes):
            runs.setdefault(cell.id, []).append(run)
    seeds = {cell.id: frozenset(cell.seeds) for cell in cells}
    pools = {name: Pool(tuple(found), seeds[name]) for name, found in runs.items()}
    for name, pool in (*_loop1_pools(cells, found, notes), *_loop2_pools(cells, found, notes)):
        pools.setdefault(name, pool)
    return pools, notes


def _cells_of(folder: Path, differing: Sequence[tuple[Cell, list[str]]], notes: list[str]) -> list[Cell]:
    """The cells that a folder differs from in nothing; where it is of none, a note says what the nearest one is."""
    of = [cell for cell, found in differing if not found]
    if differing and not of:
        near, found = min(differing, key=lambda pair: len(pair[1]))
        notes.append(f"{folder} is not compared: of {near.id} it differs in that {'; '.join(found)}.")
    return of


def _loop1_pools(cells: Sequence[Cell], found: Found, notes: list[str]) -> Iterator[tuple[str, Pool]]:
    """What loops 1 started from and ended with, on those gate seeds that are the cell's."""
    from automem.cli.loops import evolve_differences
    from automem.evolve.loop import read_config
    from automem.results.published import Pool

    for folder in found.evolved:
        asked = read_config(folder)
        differing = [(cell, evolve_differences(cell, asked)) for cell in cells if cell.stage.do == "loop1"]
        for cell in _cells_of(folder, differing, notes):
            for part, digest in _evolved(folder):
                if runs := _played(folder, "gate", digest):
                    yield f"{cell.id}/{part}", Pool(tuple(runs), frozenset(cell.seeds))


def _loop2_pools(cells: Sequence[Cell], found: Found, notes: list[str]) -> Iterator[tuple[str, Pool]]:
    """What loops 2 trained and what they trained it on, on their report seeds."""
    from automem.cli.loops import train_differences
    from automem.results.published import Pool
    from automem.train.loop import read_config

    for folder in found.trained:
        asked = read_config(folder)
        differing = [(cell, train_differences(cell, asked)) for cell in cells if cell.stage.do == "loop2"]
        for cell in _cells_of(folder, differing, notes):
            for part, digest in _trained(folder):
                if runs := _played(folder, "report", digest):
                    yield f"{cell.id}/{part}", Pool(tuple(runs))


def _evolved(folder: Path) -> list[tuple[str, str]]:
    """`start` and `best` of an evolve folder with their digests."""
    from automem.evolve.loop import read_config
    from automem.scaffold.spec import load_folder

    best = folder / "best"
    start = ("start", read_config(folder).start_digest)
    return [start, ("best", load_folder(best).digest)] if best.is_dir() else [start]


def _trained(folder: Path) -> list[tuple[str, str]]:
    """`base` and, if one was adopted, `best` of a train folder, as their plays are called."""
    from automem.train.ledger import Ledger

    best = Ledger(folder).best()
    return [("base", "base"), *([("best", best.adapter)] if best else [])]


def _played(folder: Path, purpose: str, digest: str) -> list[RunFolder]:
    from automem.play.folder import RunFolder

    path = folder / "plays" / f"{purpose}-{digest}"
    return [RunFolder.read(path)] if (path / "run.json").is_file() else []


def print_paper(asked: Given, form: Format, sample: bool, check: bool, figures: Path | None) -> None:
    """Print each experiment's published values beside ours, draw them, and with `check` fail outside tolerance.

    Raises:
        RunError: `check`, and a row is missing, incomplete or too far off; all are named on stderr.
    """
    from automem.errors import RunError, UsageError
    from automem.results import published

    writers = {
        "md": published.to_markdown,
        "csv": published.to_csv,
        "tex": published.to_latex,
        "json": published.to_json,
    }
    tables = compared(asked, sample)
    if len(tables) > 1 and form.value in ("csv", "json"):
        raise UsageError(f"--format {form.value} is for one experiment", "name them one by one")
    print("\n\n".join(writers[form.value](table) for table in tables))
    if figures:
        from automem.results.figures import of_comparison

        _tell([path for table in tables for path in of_comparison(table, figures)])
        draw_loops(asked.found, figures)
    faults = [f"{table.experiment}: {fault}" for table in tables for fault in table.faults()]
    if check and faults:
        for fault in faults:
            print(fault, file=sys.stderr)
        rows = sum(row.row.cell is not None for table in tables for row in table.rows)
        raise RunError(f"{len(faults)} of {rows} rows are not as published", "they are named above")


def draw_loops(found: Found, figures: Path) -> None:
    """Draw the learning curves of evolve and train folders."""
    from automem.evolve.report import lineage_rows
    from automem.results.figures import of_ledger, of_lineage
    from automem.train.report import ledger_rows

    for folder in found.evolved:
        _tell(of_lineage(folder.name, lineage_rows(folder), figures))
    for folder in found.trained:
        _tell(of_ledger(folder.name, ledger_rows(folder), figures))


def _tell(paths: Sequence[Path]) -> None:
    for path in paths:
        print(f"wrote {path}", file=sys.stderr)
