"""A diagnosis in words, as Markdown: for people, and for models that propose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from automem.evolve.health import health

if TYPE_CHECKING:
    from automem.evolve.findings import Diagnosis, Finding
    from automem.evolve.health import Health

Where = Callable[["Finding"], str]


def tell(diagnosis: Diagnosis, limit: int) -> str:
    """The report, of at most `limit` characters: as many findings of each kind as fit."""
    for most in (5, 4, 3, 2, 1):
        text = report(diagnosis, most, lambda finding: f"{finding.episode} step {finding.step}")
        if len(text) <= limit:
            return text
    return text[: text.rfind("\n", 0, limit - 2)] + "\n…"


def report(diagnosis: Diagnosis, most: int, where: Where, every: bool = False) -> str:
    """The whole report with `most` findings of each kind; `where` says where to look at one.

    With `every` metric in a row of the health table, else only those that are not good.
    """
    parts = [
        _head(diagnosis),
        _health(health(diagnosis), every),
        _section("Files", [file.told for file in diagnosis.files]),
    ]
    for title, lines in _findings(diagnosis, most, where):
        parts.append(_section(title, lines))
    return "\n\n".join(filter(None, parts)) + "\n"


def shown(item: Health, value: float) -> str:
    """A value of a metric, or one of its thresholds."""
    return f"{value:.1%}" if item.unit == "share" else f"{value:,.2f}".rstrip("0").rstrip(".")


def _head(diagnosis: Diagnosis) -> str:
    run = diagnosis.summary
    score = "no finished episode"
    if run.mean is not None and run.se is not None:
        score = f"progress {run.mean:.1%} ± {run.se:.1%}"
    tasks = ", ".join(run.tasks)
    return (
        f"# Diagnosis of {run.run}\n\n{run.env}/{tasks} with scaffold {run.scaffold}: {score} over {run.episodes} "
        f"episodes ({run.failed} failed), {run.steps} steps. Texts in `backticks` are data from the traces."
    )


def _health(items: list[Health], every: bool) -> str:
    listed = [item for item in items if every or item.verdict != "good"]
    rows = [
        f"| {item.label} | {shown(item, item.value)} | {item.verdict} | {shown(item, item.good)} | "
        f"{shown(item, item.poor)} | {item.recommendation} |"
        for item in listed
    ]
    head = ["| metric | value | verdict | good up to | poor above | what to do |", "|---|---:|---|---:|---:|---|"]
    rest = ", ".join(f"{item.label} {shown(item, item.value)}" for item in items if item not in listed)
    return "\n".join(["## Health", "", *(head if rows else []), *rows, *([f"\nGood: {rest}."] if rest else [])])


def _section(title: str, lines: Sequence[str]) -> str:
    listed = [f"- {line}" for line in lines]
    return "\n".join([f"## {title}", "", *listed]) if listed else ""


def _findings(d: Diagnosis, most: int, where: Where) -> Iterator[tuple[str, list[str]]]:
    total = d.totals
    sections: list[tuple[str, Sequence[Finding]]] = [
        (f"Known and lost: {total.forgotten} of {total.searches} searches", d.forgotten),
        (f"Answers that contradict themselves: {total.contradictions} of {total.answers}", d.contradictions),
        ("Empty searches", d.empty_searches),
        (f"Known and not asked for: {total.not_consulted} of {total.unproductive} bad steps", d.not_consulted),
        ("Repeated writes", d.repeated_writes),
        ("Stuck: unproductive steps on end", d.stuck),
        ("Invalid actions", d.invalid_actions),
        ("Operations that were not executed", d.failed_operations),
    ]
    for title, found in sections:
        yield title, [f"×{finding.count} {finding.told} ({where(finding)})" for finding in found[:most]]
