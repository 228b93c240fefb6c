"""`Table`: what runs scored, with the standard error, n and the failures beside every mean.

A row is one run's episodes in one env. Means are over finished episodes only; an episode that failed, is
not finished or has no trace is counted beside them and is never a zero. Columns: `docs/metrics.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from automem.episode import EpisodeSpec
from automem.play.folder import RunFolder
from automem.results.behaviour import Behaviour, read_behaviour
from automem.results.stats import mean, standard_error
from automem.results.writing import comma_separated, latex, markdown
from automem.trace import Result

By = Literal["task", "seed"]
#: What an episode counts as in `failures` while it has no result line.
UNFINISHED = "unfinished"
_NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """Some episodes of one run: `behaviour` is that of the finished ones, `failures` counts the others.

    `mean` and `se` are of progress, in [0, 1]; None where no episode is finished.
    """

    run: str
    env: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    scaffold: str
    models: Mapping[str, str]
    mean: float | None
    se: float | None
    failures: Mapping[str, int]
    behaviour: Behaviour

    @property
    def task(self) -> str:
        """The task, or `all` of several."""
        return self.tasks[0] if len(self.tasks) == 1 else "all"

    @property
    def n(self) -> int:
        """Finished episodes: those in the mean."""
        return self.behaviour.episodes

    @property
    def failed(self) -> int:
        """Episodes that are not in the mean."""
        return sum(self.failures.values())

    def per_episode(self, count: int) -> float | None:
        """A count of `behaviour` per finished episode."""
        return count / self.n if self.n else None

    def data(self, behaviour: bool) -> dict[str, Any]:
        """The row as JSON data; `behaviour` adds the rates and the growth of each memory file."""
        done = self.behaviour
        data: dict[str, Any] = {
            "run": self.run,
            "env": self.env,
            "task": self.task,
            "tasks": list(self.tasks),
            "seeds": list(self.seeds),
            "scaffold": self.scaffold,
            "models": dict(self.models),
            "mean": self.mean,
            "se": self.se,
            "n": self.n,
            "failed": self.failed,
            "failures": dict(self.failures),
            "steps": self.per_episode(done.steps),
            "tokens_in": self.per_episode(done.prompt_tokens),
            "tokens_out": self.per_episode(done.completion_tokens),
            "calls": self.per_episode(done.calls),
        }
        if behaviour:
            data |= {name: getattr(done, name) for name, _, _ in _RATES}
            data["file_growth"] = done.file_growth()
        return data


@dataclass(frozen=True)
class Table:
    """Rows in the order of the runs, and what a reader must know to compare them."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    by: frozenset[By]
    sample_se: bool
    behaviour: bool


def build_table(
    runs: Sequence[RunFolder], by: Iterable[By] = (), sample_se: bool = False, behaviour: bool = False
) -> Table:
    """One row per run, or per run and task, seed or both.

    `sample_se` takes the standard error of a sample instead of the population's, as published; `behaviour`
    adds the columns of behaviour.

    Raises:
        UsageError: a trace is damaged.
    """
    split = frozenset(by)
    rows = tuple(_row(run, specs, sample_se) for run in runs for specs in _groups(run, split))
    notes = [_meaning(sample_se), *_episodes_differ(runs), *_left_out(rows), *_estimated(rows)]
    return Table(rows, tuple(notes), split, sample_se, behaviour)


def to_cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Titles and cells as plain text, for a terminal; nothing is escaped."""
    columns = _columns(table)
    return [c.title for c in columns], [[c.show(row) for c in columns] for row in table.rows]


def to_json(table: Table) -> str:
    """`{"rows": […], "notes": […], "se": …}`, progress in [0, 1], what cannot be computed null."""
    rows = [row.data(table.behaviour) for row in table.rows]
    kind = "sample" if table.sample_se else "population"
    return json.dumps({"rows": rows, "notes": table.notes, "se": kind}, indent=2, ensure_ascii=False)


def to_csv(table: Table) -> str:
    """The data of `to_json`, one line per row; several values in a cell are set apart by `;`."""
    return comma_separated([row.data(table.behaviour) for row in table.rows])


def to_markdown(table: Table) -> str:
    """A Markdown table in percent, the notes below it."""
    return markdown(*to_cells(table), [column.left for column in _columns(table)], table.notes)


def to_latex(table: Table) -> str:
    """A LaTeX tabular in percent that needs no package, the notes below it."""
    return latex(*to_cells(table), [column.left for column in _columns(table)], table.notes)


def _groups(run: RunFolder, by: frozenset[By]) -> list[list[EpisodeSpec]]:
    groups: dict[tuple[Any, ...], list[EpisodeSpec]] = {}
    for spec in run.config.specs():
        key = (spec.task if "task" in by else None, spec.seed if "seed" in by else None)
        groups.setdefault(key, []).append(spec)
    return list(groups.values())


def _row(run: RunFolder, specs: Sequence[EpisodeSpec], sample_se: bool) -> Row:
    progress: list[float] = []
    failures: Counter[str] = Counter()
    behaviour = Behaviour()
    for spec in specs:
        result = run.result(spec)
        if result is None or not result.finished:
            failures[_why(result)] += 1
        else:
            progress.append(result.progress)
            behaviour += read_behaviour(run.trace_path(spec))
    return Row(
        run=run.name,
        env=run.config.env,
        tasks=tuple(dict.fromkeys(spec.task for spec in specs)),
        seeds=tuple(dict.fromkeys(spec.seed for spec in specs)),
        scaffold=run.config.scaffold,
        models={role: model.name for role, model in run.config.models.items()},
        mean=mean(progress),
        se=standard_error(progress, sample_se),
        failures=dict(sorted(failures.items())),
        behaviour=behaviour,
    )


def _why(result: Result | None) -> str:
    return UNFINISHED if result is None else result.failure or "unknown"


def _meaning(sample_se: bool) -> str:
    deviation = "sample" if sample_se else "population"
    return f"± is one standard error: {deviation} standard deviation / square root of n."


def _episodes_differ(runs: Sequence[RunFolder]) -> list[str]:
    """A note for each env that the runs play on other tasks or seeds."""
    notes = []
    for env in dict.fromkeys(run.config.env for run in runs):
        same = [run for run in runs if run.config.env == env]
        seeds = {run.name: _ranges(run.config.seeds) for run in same}
        tasks = {run.name: ", ".join(sorted(run.config.tasks)) for run in same}
        for what, of in (("seeds", seeds), ("tasks", tasks)):
            if len(set(of.values())) > 1:
                each = "; ".join(f"{name}: {values}" for name, values in of.items())
                notes.append(f"{env}: {what} differ between runs ({each}).")
    return notes


def _left_out(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row.run}, {row.env}, {row.task}: {row.failed} of {row.n + row.failed} episodes are not in the mean"
        f" ({_counts(row.failures)})."
        for row in rows
        if row.failed
    ]


def _estimated(rows: Sequence[Row]) -> list[str]:
    runs = dict.fromkeys(row.run for row in rows if row.behaviour.estimated_calls)
    if runs and len(runs) == len({row.run for row in rows}):
        return ["Tokens are estimated from the length of the texts."]
    return [f"Tokens are estimated from the length of the texts: {', '.join(runs)}."] if runs else []


def _ranges(seeds: Iterable[int]) -> str:
    """Seeds as people write them: `0-4,7`."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and runs[-1][-1] == seed - 1:
            runs[-1][1:] = [seed]
        else:
            runs.append([seed])
    return ",".join("-".join(map(str, run)) for run in runs)


@dataclass(frozen=True)
class _Column:
    title: str
    show: Callable[[Row], str]
    left: bool = False


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _one_place(value: float) -> str:
    return f"{value:,.1f}"


def _two_places(value: float) -> str:
    return f"{value:,.2f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


_Show = Callable[[float], str]
#: Properties of `Behaviour` that make columns: name, title, how a value is shown.
_RATES: tuple[tuple[str, str, _Show], ...] = (
    ("unproductive_rate", "unproductive %", _percent),
    ("repeat_write_rate", "repeat writes %", _percent),
    ("empty_search_rate", "empty searches %", _percent),
    ("log_writes_per_search", "log writes/search", _two_places),
    ("growth_per_step", "memory growth/step", _one_place),
    ("written_per_step", "chars written/step", _one_place),
    ("invalid_action_rate", "invalid actions %", _percent),
    ("fallback_rate", "fallbacks %", _percent),
    ("refused_rate", "refused ops %", _percent),
    ("input_tokens_per_step", "tokens in/step", _whole),
    ("output_tokens_per_step", "tokens out/step", _whole),
    ("cached_share", "cached %", _percent),
)


def _columns(table: Table) -> list[_Column]:
    seed = [_Column("seed", lambda row: str(row.seeds[0]))] if "seed" in table.by else []
    return [
        _Column("run", lambda row: row.run, left=True),
        _Column("env", lambda row: row.env, left=True),
        _Column("task", lambda row: row.task, left=True),
        *seed,
        _Column("scaffold", lambda row: row.scaffold, left=True),
        _Column("model", lambda row: _models(row.models), left=True),
        _Column("progress %", _progress),
        _Column("n", lambda row: str(row.n)),
        _Column("failed", lambda row: f"{row.failed} ({_counts(row.failures)})" if row.failed else "0"),
        _Column("steps", lambda row: _shown(row.per_episode(row.behaviour.steps), _one_place)),
        _Column("tokens in", lambda row: _shown(row.per_episode(row.behaviour.prompt_tokens), _whole)),
        _Column("tokens out", lambda row: _shown(row.per_episode(row.behaviour.completion_tokens), _whole)),
        _Column("calls", lambda row: _shown(row.per_episode(row.behaviour.calls), _one_place)),
        *(_rate(*rate) for rate in _RATES if table.behaviour),
    ]


def _rate(name: str, title: str, show: _Show) -> _Column:
    return _Column(title, lambda row: _shown(getattr(row.behaviour, name), show))


def _shown(value: float | None, show: _Show) -> str:
    return _NOTHING if value is None else show(value)


def _progress(row: Row) -> str:
    """Mean ± standard error; the mean alone of a single episode, which tells of no spread."""
    if row.mean is None:
        return _NOTHING
    return _percent(row.mean) if row.se is None or row.n == 1 else f"{_percent(row.mean)} ± {_percent(row.se)}"


def _models(models: Mapping[str, str]) -> str:
    names = set(models.values())
    return names.pop() if len(names) == 1 else ", ".join(f"{role}={name}" for role, name in models.items())


def _counts(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in failures.items())
