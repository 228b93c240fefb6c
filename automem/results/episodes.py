"""Traces as histories for the scorer: units with labels to fit on, and scores explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from automem.errors import UsageError
from automem.evict.features import AGENT_FEATURES, agent_features
from automem.evict.fit import Episode
from automem.evict.identifiers import identifiers
from automem.evict.labels import gold, hindsight
from automem.evict.scorer import Scorer
from automem.evict.units import units_from_steps
from automem.play.counterfactual import Key, Outcome, Trial
from automem.play.folder import RunFolder
from automem.trace import Step, TraceReader

#: Features named as the reason of a score, and characters of a step that are shown.
_REASONS = 3
_SHOWN = 100


def labelled_episodes(run: RunFolder, labels: str) -> list[Episode]:
    """The finished episodes of a run as units with labels, made by `labels`: hindsight or gold.

    Raises:
        UsageError: no episode is finished, or the environment tells no gold labels.
    """
    episodes = []
    for spec, _ in run.finished():
        steps = list(TraceReader(run.trace_path(spec)).steps())
        units = units_from_steps(steps)
        if labels == "hindsight":
            task = steps[0].calls[0].messages[0]["content"] if steps and steps[0].calls else ""
            made = hindsight([unit.text for unit in units], task)
        else:
            made = gold(len(units), _needed(steps))
        episodes.append(Episode(units, made))
    if not episodes:
        raise UsageError(f"{run.path} has no finished episode", "play it first")
    return episodes


def with_losses(run: RunFolder, chosen: Sequence[Trial], outcomes: Mapping[Key, Outcome]) -> list[Episode]:
    """The episodes of counterfactual trials with the loss of each step as its label; steps without a trial are left."""
    losses: dict[str, list[float]] = {}
    specs = {trial.spec.id: trial.spec for trial in chosen}
    for trial in chosen:
        losses.setdefault(trial.spec.id, []).append(outcomes[trial.key].loss)
    episodes = []
    for name, labels in losses.items():
        units = units_from_steps(list(TraceReader(run.trace_path(specs[name])).steps()))
        episodes.append(Episode(units[: len(labels)], labels))
    return episodes


def _needed(steps: Sequence[Step]) -> set[int]:
    """The steps that first brought an identifier which a later action names: what the player really needed."""
    first: dict[str, int] = {}
    needed = set()
    for step in steps:
        needed |= {first[name] for name in identifiers(step.action) if name in first}
        for name in identifiers(step.observation):
            first.setdefault(name, step.t)
    return needed


def explained(scorer: Scorer, path: Path, before: int | None) -> list[dict[str, Any]]:
    """Every step of a trace (those before step `before`) with its score and what made it, best first.

    Raises:
        UsageError: the trace has no step `before`.
    """
    steps = list(TraceReader(path).steps())
    if before is not None and before >= len(steps):
        raise UsageError(f"{path} has no step {before}", f"it has {len(steps)}, counted from 0")
    evicted = {gone["step"]: step.t for step in steps for gone in step.evictions}
    units = units_from_steps(steps[:before])
    if not units:
        return []
    features = agent_features(units)
    scores = scorer.score(features)
    rows = [
        {
            "step": unit.index,
            "score": float(score),
            "tokens": unit.tokens,
            "evicted": evicted.get(unit.index),
            "why": _why(scorer, row),
            "text": " ".join(unit.text.split())[:_SHOWN],
        }
        for unit, score, row in zip(units, scores, features, strict=True)
    ]
    return sorted(rows, key=lambda row: -row["score"])


def _why(scorer: Scorer, features: Any) -> str:
    """The features that moved the score most, with their share of z."""
    parts = [
        (weight * (value - mean) / scale, name)
        for name, value, mean, scale, weight in zip(
            AGENT_FEATURES, features, scorer.mean, scorer.scale, scorer.weights, strict=True
        )
    ]
    parts.sort(key=lambda part: -abs(part[0]))
    return ", ".join(f"{name} {share:+.1f}" for share, name in parts[:_REASONS])
