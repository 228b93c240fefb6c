"""Selection: what stays. Pins, the live turn and the last k units always; of the rest what is worth its tokens.

The greedy rule of LRE, section 2: by score per token, skipping what does not fit and going on. With equal costs it
is exact, with tokens a good heuristic for a knapsack. What is kept is kept as it is, in its order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from automem.errors import UsageError
from automem.evict.units import Unit

#: Scores, costs in tokens and a budget in; the positions to keep out, in any order.
Fill = Callable[[Sequence[float], Sequence[int], int], list[int]]


class PinsOverBudget(UsageError):
    """Pins and live turn alone are longer than the prompt may be: nothing that may be evicted would help."""


@dataclass(frozen=True)
class Selection:
    """What stays. `kept` and `evicted` are positions in the units given, in order.

    `old_tokens`: tokens kept of the old history alone, which is what a budget bounds. `total_tokens`: the whole
    prompt, with pins and recent units, which is what a window bounds.
    """

    kept: tuple[int, ...]
    evicted: tuple[int, ...]
    old_tokens: int
    total_tokens: int


def select(
    units: Sequence[Unit],
    scores: Sequence[float],
    budget: int,
    keep_last: int = 5,
    window: int | None = None,
    fill: Fill | None = None,
) -> Selection:
    """Choose the units that stay.

    `budget` bounds the old history: everything but pins and the last `keep_last` units. `window` bounds the whole
    prompt: where pins and recent units are too long for it, the oldest of the recent ones go first, the last unit
    (the live turn) never.

    Raises:
        PinsOverBudget: pins and live turn are longer than `window`.
        UsageError: not one finite score for each unit.
    """
    if len(scores) != len(units) or not all(map(math.isfinite, scores)):
        raise UsageError(f"a policy gives one finite score for each of {len(units)} units, not {scores!r:.80}")
    always, old = _fixed(units, keep_last, window)
    room = budget if window is None else min(budget, window - _tokens(units, always))
    chosen = (fill or by_density)([scores[i] for i in old], [units[i].tokens for i in old], room)
    kept_old = [old[i] for i in chosen]
    kept = {*always, *kept_old}
    return Selection(
        kept=tuple(sorted(kept)),
        evicted=tuple(i for i in range(len(units)) if i not in kept),
        old_tokens=_tokens(units, kept_old),
        total_tokens=_tokens(units, kept),
    )


def by_density(scores: Sequence[float], costs: Sequence[int], budget: int) -> list[int]:
    """Highest score per token first; what does not fit is skipped; of equals the later one first."""
    return _take([score / max(1, cost) for score, cost in zip(scores, costs, strict=True)], costs, budget)


def by_score(scores: Sequence[float], costs: Sequence[int], budget: int) -> list[int]:
    """Highest score first, whatever it costs; what does not fit is skipped; of equals the later one first."""
    return _take(scores, costs, budget)


def newest(scores: Sequence[float], costs: Sequence[int], budget: int) -> list[int]:
    """The longest end of the history that fits: first in, first out. Scores do not count."""
    start = len(costs)
    while start > 0 and costs[start - 1] <= budget:
        start -= 1
        budget -= costs[start]
    return list(range(start, len(costs)))


def everything(scores: Sequence[float], costs: Sequence[int], budget: int) -> list[int]:
    """All of it, whatever the budget."""
    return list(range(len(costs)))


def _take(ranks: Sequence[float], costs: Sequence[int], budget: int) -> list[int]:
    chosen = []
    for i in sorted(range(len(ranks)), key=lambda i: (ranks[i], i), reverse=True):
        if costs[i] <= budget:
            budget -= costs[i]
            chosen.append(i)
    return chosen


def _fixed(units: Sequence[Unit], keep_last: int, window: int | None) -> tuple[list[int], list[int]]:
    """Positions that stay in any case, and positions of the old history."""
    pins = [i for i, unit in enumerate(units) if unit.pinned]
    free = [i for i, unit in enumerate(units) if not unit.pinned]
    recent = free[-max(1, keep_last) :]
    if window is not None:
        room = window - _tokens(units, pins)
        while len(recent) > 1 and _tokens(units, recent) > room:
            del recent[0]
        if _tokens(units, recent) > room:
            raise PinsOverBudget(
                f"pins and the last unit are {_tokens(units, [*pins, *recent])} tokens, the prompt may have {window}",
                "pin less, shorten the observation, or serve the model with a longer context",
            )
    return [*pins, *recent], free[: len(free) - len(recent)]


def _tokens(units: Sequence[Unit], positions: Iterable[int]) -> int:
    return sum(units[i].tokens for i in positions)
