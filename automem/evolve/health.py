"""A verdict on each metric of a diagnosis, against thresholds, with what to do about it.

Published figures, before and after the scaffold was evolved, are those of the AutoMem paper (arXiv
2607.01224, Fig. 4 and Table 2): three games, one model. They orient; formulas are ours (`docs/metrics.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from automem.evolve.findings import Diagnosis

Verdict = Literal["good", "fair", "poor"]


class Health(BaseModel):
    """One metric: up to `good` it is good, above `poor` it is poor."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: str
    label: str
    value: float
    unit: Literal["share", "number"]
    verdict: Verdict
    good: float
    poor: float
    recommendation: str


@dataclass(frozen=True)
class _Metric:
    label: str
    good: float
    poor: float
    advice: str
    value: Callable[[Diagnosis], float | None]
    unit: Literal["share", "number"] = "share"


def _rate(name: str) -> Callable[[Diagnosis], float | None]:
    return lambda diagnosis: diagnosis.behaviour.get(name)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


#: Metric -> thresholds and advice, in the order of the report.
METRICS: dict[str, _Metric] = {
    "failed_rate": _Metric(
        "failed episodes",
        0.0,
        0.05,
        "Find out why episodes fail before anything is concluded from the others.",
        lambda d: _ratio(d.summary.failed, d.summary.failed + d.summary.episodes),
    ),
    # Published: 28, 60, 60 % -> 18, 21, 41 %.
    "unproductive_rate": _Metric(
        "unproductive steps",
        0.20,
        0.40,
        "Tell the agent what it did last and what came of it, and show what memory holds about the place.",
        _rate("unproductive_rate"),
    ),
    "not_consulted_rate": _Metric(
        "unproductive steps where memory held something that was not asked for",
        0.25,
        0.50,
        "Show the file's last lines in the PLAN prompt, or ask for a search before the action.",
        lambda d: _ratio(d.totals.not_consulted, d.totals.unproductive),
    ),
    # Published: 8.2, 13.9, 16.4 % -> 1.4, 4.4, 5.3 %.
    "repeat_write_rate": _Metric(
        "repeated writes",
        0.05,
        0.10,
        "Give repeated facts a table, where a key is written in place, or have the agent search before it writes.",
        _rate("repeat_write_rate"),
    ),
    # Published: 32, 60, 51 % -> 26, 52, 25 %.
    "empty_search_rate": _Metric(
        "empty searches",
        0.25,
        0.50,
        "Compare what is asked with what the files hold: keep what gets lost, and write it as it is sought.",
        _rate("empty_search_rate"),
    ),
    "forgotten_rate": _Metric(
        "searches for what was known and lost",
        0.05,
        0.15,
        "Keep one row per fact instead of the newest lines, or protect the lines that are looked for.",
        lambda d: _ratio(d.totals.forgotten, d.totals.searches),
    ),
    "contradiction_rate": _Metric(
        "answers that contradict themselves",
        0.05,
        0.20,
        "Key the file, so that a new value replaces the old one.",
        lambda d: _ratio(d.totals.contradictions, d.totals.answers),
    ),
    # Published: 0.84, 2.89, 4.66 -> 0.39, 0.82, 1.31.
    "log_writes_per_search": _Metric(
        "writes per search in LOG",
        1.0,
        3.0,
        "Have the agent look into the file before it writes.",
        _rate("log_writes_per_search"),
        "number",
    ),
    # Published for NetHack's map: 138 -> 6 characters per step.
    "file_growth": _Metric(
        "growth of the fastest growing file, characters per step",
        10.0,
        100.0,
        "Give the file a limit (keep) or a key.",
        lambda d: max((file.growth for file in d.files), default=None),
        "number",
    ),
    "invalid_action_rate": _Metric(
        "steps with an invalid action",
        0.02,
        0.10,
        "Name the valid actions where the agent decides.",
        _rate("invalid_action_rate"),
    ),
    "refused_rate": _Metric(
        "operations that were not executed",
        0.05,
        0.15,
        "Show the right form of the operations that are refused most, and offer only those that can work.",
        _rate("refused_rate"),
    ),
    # Published: 4.5, 4.1, 5.7 k -> 3.1, 4.0, 4.3 k.
    "input_tokens_per_step": _Metric(
        "input tokens per step",
        4_500.0,
        9_000.0,
        "Read less of each file at a time, and answer searches with fewer lines.",
        _rate("input_tokens_per_step"),
        "number",
    ),
}


def health(diagnosis: Diagnosis) -> list[Health]:
    """A verdict on each metric that has a value."""
    found = []
    for name, metric in METRICS.items():
        value = metric.value(diagnosis)
        if value is None:
            continue
        verdict = _verdict(value, metric)
        found.append(
            Health(
                metric=name,
                label=metric.label,
                value=value,
                unit=metric.unit,
                verdict=verdict,
                good=metric.good,
                poor=metric.poor,
                recommendation="Nothing to do." if verdict == "good" else metric.advice,
            )
        )
    return found


def _verdict(value: float, metric: _Metric) -> Verdict:
    if value <= metric.good:
        return "good"
    return "fair" if value <= metric.poor else "poor"
