"""Scorers on conversations with known evidence: who ranks it first, and how much of it survives (LRE, section 5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

import numpy as np

from automem.errors import UsageError, did_you_mean
from automem.evict.conversation import ConversationScorer, fit_conversations
from automem.evict.counting import Count, approximate_tokens
from automem.evict.datasets import Fold, Group, folds, held_out, refuse_leak
from automem.evict.fit import Episode, area_under_curve
from automem.evict.labels import best_coverage, choose_threshold, coverage
from automem.evict.policies.base import make
from automem.evict.select import by_score

#: Scorers without a fit, and the policies that they are.
FIXED = {"recency": "window", "tfidf": "tfidf"}
#: Fitted scorers: by coverage of answers, by gold evidence, and by gold evidence on words alone.
LEARNED = ("content", "self", "supervised")
#: Share of the units that is kept.
RETAIN = 0.2

Scores = Callable[[Group], Sequence[float]]


@dataclass(frozen=True)
class BenchRow:
    """One scorer. AUC and share of evidence kept are means over the groups where they are defined, `groups` many.

    `tokens` of what is kept and `full_tokens` of everything are means over all groups, dates counted. `bytes` is the
    largest file of a fitted scorer, `dropped` the rows kept out of training because a test unit has their text,
    `thresholds` those of the coverage labels, one for each fold.
    """

    scorer: str
    auc: float | None
    evidence: float | None
    groups: int
    tokens: float
    full_tokens: float
    bytes: int | None = None
    dropped: int | None = None
    thresholds: tuple[float, ...] = ()


class Bench:
    """The groups of a data set and its published split: `most` folds, None for one group at a time."""

    def __init__(
        self,
        groups: Sequence[Group],
        most: int | None,
        threshold: float | None = None,
        retain: float = RETAIN,
        count: Count = approximate_tokens,
    ) -> None:
        """`threshold` of the coverage labels; None chooses it in each training fold, without gold labels."""
        if not 0 < retain <= 1:
            raise UsageError(f"a share of units to keep is above 0 and at most 1, not {retain}")
        self._groups = groups
        self._folds = folds(len(groups), most)
        self._threshold = threshold
        self._retain = retain
        self._count = count
        self._gold = [group.gold() for group in groups]
        self._full = fmean(count(group.context(range(len(group.units)))) for group in groups)
        self._best: list[list[float]] = []

    def row(self, scorer: str) -> BenchRow:
        """Score every group, with a scorer that has not seen it.

        Raises:
            UsageError: no such scorer, a leaking split, or labels that are all the same.
        """
        if scorer in FIXED:
            policy = make(FIXED[scorer])
            return self._measure(scorer, [policy.scores(group.units) for group in self._groups])
        if scorer not in LEARNED:
            raise UsageError(f"unknown scorer '{scorer}'", did_you_mean(scorer, [*FIXED, *LEARNED]))
        return self._learned(scorer)

    def fit(self, scorer: str, source: str, auc: float | None) -> ConversationScorer:
        """The scorer fitted on all groups, to be used elsewhere; `auc` is that of its row."""
        everything = range(len(self._groups))
        made = self._fit(scorer, everything, self._labels(scorer, everything)[0], frozenset(), source)
        return made.model_copy(update={"provenance": made.provenance.model_copy(update={"auc": auc})})

    def _learned(self, scorer: str) -> BenchRow:
        scores: dict[int, Sequence[float]] = {}
        thresholds, size, dropped = [], 0, 0
        for fold in self._folds:
            left_out = self._left_out(fold)
            labels, threshold = self._labels(scorer, fold.train)
            fitted = self._fit(scorer, fold.train, labels, left_out, "")
            scores |= {i: fitted.score(self._groups[i].units).tolist() for i in fold.test}
            size = max(size, len(fitted.to_json().encode()))
            dropped += sum(len(self._groups[i].units) for i in fold.train) - fitted.provenance.units
            thresholds += [] if threshold is None else [threshold]
        row = self._measure(scorer, [scores[i] for i in range(len(self._groups))])
        return BenchRow(**{**asdict(row), "bytes": size, "dropped": dropped, "thresholds": tuple(thresholds)})

    def _left_out(self, fold: Fold) -> frozenset[str]:
        train, test = ([self._groups[i] for i in side] for side in (fold.train, fold.test))
        left_out = held_out(train, test)
        refuse_leak(train, test, left_out)
        return left_out

    def _labels(self, scorer: str, train: Sequence[int]) -> tuple[list[list[int]], float | None]:
        """A label for each unit of the training groups, and the threshold where there is one."""
        if scorer != "self":
            return [self._gold[i] for i in train], None
        threshold = self._threshold
        if threshold is None:
            self._best = self._best or [best_coverage(group.texts(), group.answers()) for group in self._groups]
            threshold = choose_threshold([share for i in train for share in self._best[i]])
        groups = [self._groups[i] for i in train]
        return [coverage(group.texts(), group.answers(), threshold) for group in groups], threshold

    def _fit(
        self, scorer: str, train: Sequence[int], labels: list[list[int]], left_out: frozenset[str], source: str
    ) -> ConversationScorer:
        episodes = [Episode(self._groups[i].units, own) for i, own in zip(train, labels, strict=True)]
        name = "coverage of answers" if scorer == "self" else "gold evidence"
        return fit_conversations(episodes, name, source, numbers=scorer != "content", left_out=left_out)

    def _measure(self, scorer: str, scores: Sequence[Sequence[float]]) -> BenchRow:
        areas, shares, tokens = [], [], []
        for group, wanted, given in zip(self._groups, self._gold, scores, strict=True):
            kept = retained(given, self._retain)
            tokens.append(self._count(group.context(kept)))
            if 0 < sum(wanted) < len(wanted):
                areas.append(area_under_curve(np.array(given, dtype=np.float64), np.array(wanted)))
                shares.append(sum(wanted[i] for i in kept) / sum(wanted))
        return BenchRow(
            scorer=scorer,
            auc=fmean(areas) if areas else None,
            evidence=fmean(shares) if shares else None,
            groups=len(areas),
            tokens=fmean(tokens),
            full_tokens=self._full,
        )


def retained(scores: Sequence[float], share: float = RETAIN) -> list[int]:
    """Positions of the highest scores, a `share` of all units and at least one; in order."""
    return sorted(by_score(scores, [1] * len(scores), max(1, round(share * len(scores)))))


def to_json(rows: Sequence[BenchRow]) -> str:
    """`{"rows": [...]}`."""
    return json.dumps({"rows": [asdict(row) for row in rows]}, indent=2)


def to_markdown(rows: Sequence[BenchRow]) -> str:
    """A Markdown table."""
    titles = ("scorer", "macro AUC", "evidence kept %", "groups", "tokens", "of all %", "KB", "threshold")
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    return "\n".join(lines + [f"| {' | '.join(_cells(row))} |" for row in rows])


def _cells(row: BenchRow) -> list[str]:
    low, high = min(row.thresholds, default=None), max(row.thresholds, default=None)
    return [
        row.scorer,
        "–" if row.auc is None else f"{row.auc:.3f}",
        "–" if row.evidence is None else f"{100 * row.evidence:.1f}",
        str(row.groups),
        f"{row.tokens:,.0f}",
        f"{100 * row.tokens / row.full_tokens:.1f}",
        "–" if row.bytes is None else f"{row.bytes / 1000:,.1f}",
        "–" if low is None else str(low) if low == high else f"{low}-{high}",
    ]
