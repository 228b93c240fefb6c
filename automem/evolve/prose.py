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


def report(diagnosis: Diagnosis, most: int, where: Where) -> str:
    """The whole report with `most` findings of each kind; `where` says where to look at one."""
    parts = [_head(diagnosis), _health(health(diagnosis)), _section("Files", [file.told for file in diagnosis.files])]
    for title, lines in _findings(diagnosis, most, where):
        parts.append(_section(title, lines))
    return "\n\n".join(filter(None, parts)) + "\n"


def shown(item: Health) -> str:
    """The value of a metric."""
    return f"{item.value:.1%}" if item.unit == "share" else f"{item.value:,.2f}".rstrip("0").rstrip(".")


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


def _health(items: list[Health]) -> str:
    rows = [
        f"| {item.label} | {shown(item)} | {item.verdict} | {item.recommendation} |"
        for item in items
        if item.verdict != "good"
    ]
    good = ", ".join(f"{item.label} {shown(item)}" for item in items if item.verdict == "good")
    table = ["| metric | value | verdict | what to do |", "|---|---:|---|---|", *rows, ""] if rows else []
    return "\n".join(["## Health", "", *table, f"Good: {good or 'nothing'}."])


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
