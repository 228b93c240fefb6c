"""`diagnose`: what the traces of a run say about its scaffold. Definitions: `docs/diagnosis.md`."""

from __future__ import annotations

import re
from typing import Any

from automem.evolve.findings import (
    Contradiction,
    Diagnosis,
    EmptySearch,
    FailedOperation,
    FileUse,
    Forgotten,
    InvalidAction,
    NotConsulted,
    RepeatedWrite,
    StuckStretch,
    Summary,
    Totals,
)
from automem.evolve.watch import Seen, Stretch, Tally, Watch
from automem.play.folder import RunFolder
from automem.results.behaviour import Behaviour, behaviour
from automem.results.stats import mean, standard_error
from automem.scaffold.spec import load_folder
from automem.trace import Result, TraceReader

__all__ = ["MOST", "RATES", "Diagnosis", "diagnose"]

#: Findings of a kind that a diagnosis lists, and files.
MOST, FILES = 10, 32
#: The rates of a diagnosis: every property of `Behaviour`.
RATES = tuple(name for name, value in vars(Behaviour).items() if isinstance(value, property))

_SHOWN = re.compile(r"""\bmemory\.(?:text|tail)\(\s*["']([^"']+)["']""")


def diagnose(run: RunFolder) -> Diagnosis:
    """The diagnosis of the finished episodes of `run`, in one pass over each trace.

    Raises:
        UsageError: the run's scaffold or a trace cannot be read.
    """
    watch = Watch(load_folder(run.path / "scaffold"))
    results: list[Result] = []
    total = Behaviour()
    for spec, result in run.finished():
        results.append(result)
        steps = TraceReader(run.trace_path(spec)).steps()
        total += behaviour(watch.episode(spec.id, steps))
    files = _files(watch, total)
    return Diagnosis(
        summary=_summary(run, results),
        behaviour={name: getattr(total, name) for name in RATES},
        totals=_totals(watch, total, files),
        files=files,
        **_findings(watch, files),
    )


def _summary(run: RunFolder, results: list[Result]) -> Summary:
    scores = [result.progress for result in results]
    return Summary(
        run=run.name,
        env=run.config.env,
        tasks=run.config.tasks,
        scaffold=run.config.scaffold,
        episodes=len(results),
        failed=len(run.config.specs()) - len(results),
        steps=sum(result.steps for result in results),
        mean=mean(scores),
        se=standard_error(scores),
    )


def _totals(watch: Watch, total: Behaviour, files: list[FileUse]) -> Totals:
    sides = {file.name: file.key.side for file in files if file.key}
    return Totals(
        searches=total.searches,
        forgotten=watch.forgotten.total,
        answers=sum(watch.answers[name] for name in sides),
        contradictions=sum(watch.contradictory[entry] for entry in sides.items()),
        unproductive=watch.unproductive,
        not_consulted=watch.not_consulted.total,
    )


def _files(watch: Watch, total: Behaviour) -> list[FileUse]:
    """Declared files in the scaffold's order, then those that were created."""
    specs = {file.name: file for file in watch.scaffold.spec.files}
    shown = set(_SHOWN.findall("\n".join(watch.scaffold.prompts.values())))
    steps, episodes = max(total.steps, 1), max(total.episodes, 1)
    return [
        FileUse(
            name=name,
            kind=watch.kinds.get(name, "log"),
            declared=name in specs,
            keep=specs[name].keep if name in specs else None,
            growth=total.kept[name] / steps,
            written=total.added[name] / steps,
            lines=use.lines / episodes,
            consulted=use.consulted,
            removed=use.removed,
            shown=name in shown,
            key=watch.keys[name].key() if name in watch.keys else None,
            episode=use.episode,
            step=use.step,
            count=use.writes,
            example=use.line,
        )
        for name, use in list(watch.uses.items())[:FILES]
    ]


def _findings(watch: Watch, files: list[FileUse]) -> dict[str, list[Any]]:
    """The most frequent findings of each kind, by the name of their list."""
    keyed = {(file.name, file.key.side) for file in files if file.key}
    return {
        "repeated_writes": [
            RepeatedWrite(**_at(seen), file=file, example=text) for (file, text), seen in _top(watch.repeated)
        ],
        "empty_searches": [
            EmptySearch(**_at(seen), file=file, keyword=word, nearest=seen.note["nearest"], example=seen.note["answer"])
            for (file, word), seen in _top(watch.empty)
        ],
        "forgotten": [
            Forgotten(**_at(seen), file=file, keyword=word, removed=seen.note["removed"], example=seen.note["line"])
            for (file, word), seen in _top(watch.forgotten)
        ],
        "contradictions": [
            Contradiction(**_at(seen), file=file, subject=key, lines=seen.note["lines"], example=seen.note["lines"][-1])
            for (file, side, key), seen in watch.contradictions.top()
            if (file, side) in keyed
        ][:MOST],
        "stuck": [_stuck(stretch) for stretch in watch.longest()[:MOST]],
        "invalid_actions": [
            InvalidAction(**_at(seen), proposed=proposed, executed=seen.note["executed"], example=seen.note["answer"])
            for (proposed,), seen in _top(watch.invalid)
        ],
        "failed_operations": [
            FailedOperation(**_at(seen), operation=name, error=error, example=seen.note["wrote"])
            for (name, error), seen in _top(watch.failed)
        ],
        "not_consulted": [
            NotConsulted(**_at(seen), file=file, shared=seen.note["shared"], example=line)
            for (file, line), seen in _top(watch.not_consulted)
        ],
    }


def _top(tally: Tally) -> list[tuple[tuple[str, ...], Seen]]:
    return tally.top()[:MOST]


def _at(seen: Seen) -> dict[str, Any]:
    return {"count": seen.count, "episode": seen.episode, "step": seen.step}


def _stuck(stretch: Stretch) -> StuckStretch:
    actions = ", ".join(f"{action} ×{count}" for action, count in stretch.actions.most_common(4))
    return StuckStretch(
        episode=stretch.episode, step=stretch.step, count=stretch.count, example=stretch.scene, actions=actions
    )
