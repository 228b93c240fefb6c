"""Runs on the same episodes, each compared with the one before: what every step was worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from automem.play.folder import RunFolder
from automem.results.stats import Paired, paired
from automem.results.table import Row, build_table
from automem.results.writing import markdown

#: Confidence of the interval of a gain.
CONFIDENCE = 0.90
_TITLES = ("", "scaffold", "progress %", "n", "gain, points", "log writes/search", "repeat writes %")
_NOTE = (
    f"± is one standard error. A gain is the mean paired difference to the row above, in points of progress, with its "
    f"{CONFIDENCE:.0%} interval."
)


@dataclass(frozen=True)
class Rung:
    """A run under a name, and its paired difference to the run before; None for the first."""

    name: str
    row: Row
    gain: Paired | None

    def data(self) -> dict[str, Any]:
        """As JSON data; progress and gain in [0, 1]."""
        return {"name": self.name, **self.row.data(behaviour=True), "gain": vars(self.gain) if self.gain else None}


def ladder(runs: Sequence[tuple[str, RunFolder]]) -> list[Rung]:
    """One rung for each run. Pairs are episodes of one task and seed that both runs have finished."""
    rows = build_table([run for _, run in runs], behaviour=True).rows
    scores = [{(spec.task, spec.seed): result.progress for spec, result in run.finished()} for _, run in runs]
    gains = [_gain(before, after) for before, after in pairwise(scores)]
    return [Rung(name, row, gain) for (name, _), row, gain in zip(runs, rows, [None, *gains], strict=True)]


def to_markdown(rungs: Sequence[Rung]) -> str:
    """A Markdown table in percent, with a note on what a gain is."""
    cells = [_cells(rung) for rung in rungs]
    return markdown(_TITLES, cells, [True, True, False, False, False, False, False], [_NOTE])


def _gain(before: dict[Any, float], after: dict[Any, float]) -> Paired:
    both = [key for key in before if key in after]
    return paired([before[key] for key in both], [after[key] for key in both], CONFIDENCE)


def _cells(rung: Rung) -> list[str]:
    row = rung.row
    progress = "–" if row.mean is None or row.se is None else f"{row.mean:.1%} ± {row.se:.1%}".replace("%", "")
    writes, repeats = row.behaviour.log_writes_per_search, row.behaviour.repeat_write_rate
    return [
        rung.name,
        row.scaffold,
        progress,
        str(row.n) + (f" ({row.failed} failed)" if row.failed else ""),
        _gained(rung.gain),
        "–" if writes is None else f"{writes:.2f}",
        "–" if repeats is None else f"{repeats:.1%}".rstrip("%"),
    ]


def _gained(gain: Paired | None) -> str:
    if gain is None or gain.mean is None or gain.low is None or gain.high is None:
        return "–"
    return f"{gain.mean * 100:+.1f} ({gain.low * 100:+.1f} to {gain.high * 100:+.1f})"
