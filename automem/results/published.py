"""Published values beside ours: `expected.yaml` read, episodes pooled, differences taken.

Progress and rates are in percent here, as the papers print them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from automem.config import read_yaml, validate
from automem.episode import EpisodeSpec
from automem.errors import UsageError, did_you_mean
from automem.play.folder import RunFolder
from automem.results.behaviour import Behaviour, read_behaviour
from automem.results.stats import mean, standard_error
from automem.results.table import UNFINISHED
from automem.results.writing import comma_separated, latex, markdown

PROGRESS = "progress"
#: Metric -> its title, and what a value of ours is multiplied by.
METRICS: dict[str, tuple[str, float]] = {
    PROGRESS: ("progress %", 100.0),
    "unproductive_rate": ("unproductive %", 100.0),
    "repeat_write_rate": ("repeat writes %", 100.0),
    "empty_search_rate": ("empty searches %", 100.0),
    "log_writes_per_search": ("log writes/search", 1.0),
    "input_tokens_per_step": ("tokens in/step", 1.0),
}
#: Growth of one memory file: `file_growth/FILE`.
_GROWTH = "file_growth/"
_NOTHING = "–"


class ExpectedRow(BaseModel):
    """One published value."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    game: str
    agent: str
    cell: str | None = Field(None, description="STAGE/GAME-AGENT of the experiment; none: nothing here plays it.")
    metric: str = Field(PROGRESS, description="progress, a rate of docs/metrics.md, or file_growth/FILE.")
    mean: float = Field(description="In the unit of the metric: percent for progress and rates.")
    se: float | None = Field(None, ge=0, description="Standard error.")
    n: int | None = Field(None, ge=1, description="Episodes.")
    tolerance: float | None = Field(None, gt=0, description="Difference at which --check fails; none: it never does.")
    source: str | None = Field(None, description="Where it stands, if not where the others do.")

    @property
    def name(self) -> str:
        """What a message calls it."""
        return f"{self.game}, {self.agent}" + ("" if self.metric == PROGRESS else f", {self.metric}")


class Expected(BaseModel):
    """`expected.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: str
    source: str = Field(description="Table or figure.")
    read: str = Field("", description="What a reader must know about the numbers.")
    figure: Literal["progress", "points", "behaviour"] | None = Field(None, description="How it is drawn.")
    rows: tuple[ExpectedRow, ...] = Field(min_length=1)


def load_expected(path: Path, cells: Collection[str]) -> Expected:
    """The published values in `path`, for an experiment with `cells`.

    Raises:
        UsageError: a key or value is wrong; a row names a cell or a metric that there is not.
    """
    expected = validate(Expected, read_yaml(path), path)
    for number, row in enumerate(expected.rows):
        if row.cell is not None and row.cell not in cells:
            raise UsageError(
                f"{path}: rows.{number}.cell: there is no cell '{row.cell}'", did_you_mean(row.cell, cells)
            )
        if row.metric not in METRICS and not row.metric.startswith(_GROWTH):
            hint = did_you_mean(row.metric, [*METRICS, f"{_GROWTH}FILE"])
            raise UsageError(f"{path}: rows.{number}.metric: unknown metric '{row.metric}'", hint)
    return expected


@dataclass(frozen=True)
class Pool:
    """Episodes of one cell, of one or several run folders; `seeds` of them only, where given."""

    runs: tuple[RunFolder, ...]
    seeds: frozenset[int] | None = None

    def episodes(self) -> Iterator[tuple[RunFolder, EpisodeSpec]]:
        """Each episode with the run that has it."""
        for run in self.runs:
            for spec in run.config.specs():
                if self.seeds is None or spec.seed in self.seeds:
                    yield run, spec


@dataclass(frozen=True)
class Measured:
    """A value of ours, in the unit of the metric; `se` is None where there is no spread to tell of."""

    mean: float | None
    se: float | None
    n: int
    failures: Mapping[str, int]

    @property
    def failed(self) -> int:
        """Episodes that are not in the mean."""
        return sum(self.failures.values())


def measure(pool: Pool, metric: str, sample_se: bool = False) -> Measured:
    """`metric` over the finished episodes of a pool, each with the same weight, as published."""
    progress: list[float] = []
    failures: Counter[str] = Counter()
    behaviour = Behaviour()
    for run, spec in pool.episodes():
        result = run.result(spec)
        if result is None or not result.finished:
            failures[UNFINISHED if result is None else result.failure or "unknown"] += 1
            continue
        progress.append(100 * result.progress)
        if metric != PROGRESS:
            behaviour += read_behaviour(run.trace_path(spec))
    if metric == PROGRESS:
        se = standard_error(progress, sample_se) if len(progress) > 1 else None
        return Measured(mean(progress), se, len(progress), dict(failures))
    return Measured(_behaved(behaviour, metric), None, len(progress), dict(failures))


def _behaved(behaviour: Behaviour, metric: str) -> float | None:
    if metric.startswith(_GROWTH):
        return behaviour.file_growth().get(metric.removeprefix(_GROWTH))
    value: float | None = getattr(behaviour, metric)
    return None if value is None else value * METRICS[metric][1]


@dataclass(frozen=True)
class Comparison:
    """A published value and ours; None where nothing of the cell was played."""

    row: ExpectedRow
    ours: Measured | None

    @property
    def difference(self) -> float | None:
        """Ours less published."""
        return None if self.ours is None or self.ours.mean is None else self.ours.mean - self.row.mean

    @property
    def within(self) -> bool | None:
        """Whether the difference is at most the root of the sum of both squared errors; None without both errors."""
        if self.difference is None or self.ours is None or self.ours.se is None or self.row.se is None:
            return None
        return abs(self.difference) <= hypot(self.ours.se, self.row.se)

    @property
    def fault(self) -> str | None:
        """Why `--check` fails here; None where it does not, and where there is no cell to play."""
        if self.row.cell is None:
            return None
        if self.ours is None:
            return f"missing: nothing of {self.row.cell} was given"
        wanted, found = self.row.n or 1, self.ours.n
        if found < wanted:
            return f"{found} of {wanted} episodes" + (f" ({_counts(self.ours.failures)})" if self.ours.failed else "")
        if self.difference is None:
            return f"no value of {self.row.metric}"
        if self.row.tolerance is not None and abs(self.difference) > self.row.tolerance + 1e-9:
            return f"{self.difference:+.2f} from the published value, more than {self.row.tolerance:g}"
        return None

    def data(self) -> dict[str, Any]:
        """As JSON data."""
        ours = self.ours or Measured(None, None, 0, {})
        return {
            **self.row.model_dump(include={"game", "agent", "cell", "metric"}),
            "ours": ours.mean,
            "ours_se": ours.se,
            "n": ours.n,
            "failed": ours.failed,
            "failures": dict(ours.failures),
            "published": self.row.mean,
            "published_se": self.row.se,
            "published_n": self.row.n,
            "difference": self.difference,
            "within": self.within,
            "tolerance": self.row.tolerance,
            "fault": self.fault,
            "source": self.row.source,
        }


@dataclass(frozen=True)
class Compared:
    """The published values of an experiment beside ours."""

    experiment: str
    expected: Expected
    rows: tuple[Comparison, ...]
    notes: tuple[str, ...]

    @property
    def alone(self) -> bool:
        """Whether there is nothing of ours."""
        return all(row.ours is None for row in self.rows)

    def faults(self) -> list[str]:
        """Why `--check` fails, row by row."""
        return [f"{row.row.name}: {row.fault}" for row in self.rows if row.fault]


def compare(
    experiment: str,
    expected: Expected,
    pools: Mapping[str, Pool],
    notes: Sequence[str] = (),
    sample_se: bool = False,
) -> Compared:
    """Each published value beside the pool of its cell."""
    rows = []
    for row in expected.rows:
        pool = pools.get(row.cell) if row.cell else None
        rows.append(Comparison(row, measure(pool, row.metric, sample_se) if pool else None))
    return Compared(experiment, expected, tuple(rows), tuple(notes))


def to_json(compared: Compared) -> str:
    """`{"experiment", "paper", "source", "read", "rows", "notes"}`; what cannot be computed is null."""
    data = {
        "experiment": compared.experiment,
        **compared.expected.model_dump(include={"paper", "source", "read"}),
        "rows": [row.data() for row in compared.rows],
        "notes": list(compared.notes),
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def to_csv(compared: Compared) -> str:
    """The rows of `to_json`."""
    return comma_separated([row.data() for row in compared.rows])


def to_markdown(compared: Compared) -> str:
    """A Markdown table, what a reader must know below it."""
    return markdown(*_cells(compared), _notes(compared))


def to_latex(compared: Compared) -> str:
    """A LaTeX tabular, the same."""
    return latex(*_cells(compared), _notes(compared))


def _cells(compared: Compared) -> tuple[list[str], list[list[str]], list[bool]]:
    """Titles, cells, and which columns are text."""
    metric = any(row.row.metric != PROGRESS for row in compared.rows)
    columns = [("game", True), ("agent", True), *([("metric", True)] if metric else [])]
    columns += [] if compared.alone else [("ours", False), ("n", False), ("failed", False)]
    columns += [("published" + ("" if metric else " %"), False), ("n published", False)]
    columns += [] if compared.alone else [("difference", False), ("within errors", True)]
    columns += [("source", True)] if any(row.row.source for row in compared.rows) else []
    columns += [("cell", True)]
    rows = [_shown(row) for row in compared.rows]
    titles = [title for title, _ in columns]
    return titles, [[row[title.removesuffix(" %")] for title in titles] for row in rows], [left for _, left in columns]


def _shown(row: Comparison) -> dict[str, str]:
    ours, within = row.ours, row.within
    return {
        "game": row.row.game,
        "agent": row.row.agent,
        "metric": METRICS[row.row.metric][0] if row.row.metric in METRICS else row.row.metric,
        "ours": _NOTHING if ours is None else _with_error(ours.mean, ours.se),
        "n": _NOTHING if ours is None else str(ours.n),
        "failed": _NOTHING if ours is None else f"{ours.failed} ({_counts(ours.failures)})" if ours.failed else "0",
        "published": _with_error(row.row.mean, row.row.se),
        "n published": _NOTHING if row.row.n is None else str(row.row.n),
        "difference": _NOTHING if row.difference is None else f"{row.difference:+,.2f}",
        "within errors": _NOTHING if within is None else "yes" if within else "no",
        "source": row.row.source or "",
        "cell": row.row.cell or _NOTHING,
    }


def _notes(compared: Compared) -> list[str]:
    expected = compared.expected
    notes = [] if not compared.alone else ["No runs of ours were given: published values alone."]
    notes += list(compared.notes)
    notes.append(f"Published: {expected.paper}; {expected.source}.")
    if not compared.alone:
        notes.append(
            "within errors: the difference is at most the root of the sum of both squared standard errors. "
            "± is one standard error: population standard deviation / square root of n."
        )
    return notes


def _with_error(value: float | None, se: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{value:,.2f}" if se is None else f"{value:,.2f} ± {se:.2f}"


def _counts(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(failures.items()))
