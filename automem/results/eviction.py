"""What eviction policies are worth: the same episodes with each policy at one token budget, side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from automem.evict.units import units_from_steps
from automem.play.folder import RunFolder
from automem.results.stats import mean, standard_error
from automem.trace import TraceReader


@dataclass(frozen=True)
class PolicyRow:
    """One policy: success, steps, and tokens of whole prompts (`peak` and `mean` over calls, mean of episodes).

    `failures` counts the episodes that are in no mean, by kind.
    """

    policy: str
    budget: int | None
    mean: float | None
    se: float | None
    n: int
    failures: Mapping[str, int]
    solved: float | None
    steps: float | None
    peak_tokens: float | None
    mean_tokens: float | None
    calls: float | None
    evicted: float | None


def history_tokens(run: RunFolder) -> int:
    """Tokens of the whole history of an episode, mean over the finished ones: what a relative budget is a share of.

    Raises:
        ValueError: no episode is finished.
    """
    totals = []
    for spec, _ in run.finished():
        units = units_from_steps(list(TraceReader(run.trace_path(spec)).steps()))
        totals.append(sum(unit.tokens for unit in units))
    return round(fmean(totals))


def policy_row(policy: str, budget: int | None, run: RunFolder) -> PolicyRow:
    """What the run of one policy shows."""
    finished = list(run.finished())
    progress = [result.progress for _, result in finished]
    sizes = [_prompts(run.trace_path(spec)) for spec, _ in finished]
    return PolicyRow(
        policy=policy,
        budget=budget,
        mean=mean(progress),
        se=standard_error(progress),
        n=len(progress),
        failures=_failures(run),
        solved=mean([float(value == 1.0) for value in progress]),
        steps=mean([float(result.steps) for _, result in finished]),
        peak_tokens=mean([float(max(prompts, default=0)) for prompts, _ in sizes]),
        mean_tokens=mean([fmean(prompts) for prompts, _ in sizes if prompts]),
        calls=mean([float(len(prompts)) for prompts, _ in sizes]),
        evicted=mean([float(evicted) for _, evicted in sizes]),
    )


def _failures(run: RunFolder) -> dict[str, int]:
    results = [run.result(spec) for spec in run.config.specs()]
    owed = [result for result in results if result is None or not result.finished]
    return dict(Counter("unfinished" if result is None else str(result.failure) for result in owed))


def _prompts(path: Path) -> tuple[list[int], int]:
    """Tokens of each prompt of an episode, and how many steps were evicted."""
    prompts, evicted = [], 0
    for step in TraceReader(path).steps():
        prompts += [call.usage.prompt for call in step.calls]
        evicted += len(step.evictions)
    return prompts, evicted


def to_json(rows: Sequence[PolicyRow]) -> str:
    """`{"rows": [...]}`."""
    return json.dumps({"rows": [{**asdict(row), "failed": sum(row.failures.values())} for row in rows]}, indent=2)


def to_markdown(rows: Sequence[PolicyRow]) -> str:
    """A Markdown table; progress and solved in percent."""
    titles = ("policy", "budget", "progress %", "solved %", "n", "failed", "steps", "peak tokens", "mean tokens",
              "calls", "steps evicted")  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    return "\n".join(lines + [f"| {' | '.join(_cells(row))} |" for row in rows])


def _cells(row: PolicyRow) -> list[str]:
    progress = "–" if row.mean is None else f"{100 * row.mean:.1f} ± {100 * (row.se or 0):.1f}"
    solved = "–" if row.solved is None else f"{100 * row.solved:.1f}"
    numbers = (row.steps, row.peak_tokens, row.mean_tokens, row.calls, row.evicted)
    told = ["–" if number is None else f"{number:,.1f}" for number in numbers]
    budget = "–" if row.budget is None else f"{row.budget:,}"
    failed = ", ".join(f"{count} {kind}" for kind, count in row.failures.items()) or "0"
    return [row.policy, budget, progress, solved, str(row.n), failed, *told]
