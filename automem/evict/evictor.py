"""`Evictor`: when to evict, and what has been evicted so far. One for each episode or conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from automem.errors import UsageError
from automem.evict.policies.base import Policy
from automem.evict.select import PinsOverBudget, Selection, select
from automem.evict.units import Unit


@dataclass(frozen=True)
class Limits:
    """How long history may become.

    `window`: tokens of the whole prompt, which is never exceeded; leave room for the answer. Eviction starts
    above `trigger` · window and goes down to `low` · window. `budget`: tokens of the old history (all but pins and
    the last `keep_last` units), as published. At least one of the two is given. After an eviction, `cooldown` new
    units must come before the next one, unless the window would be exceeded.
    """

    window: int | None = None
    budget: int | None = None
    trigger: float = 0.8
    low: float = 0.6
    cooldown: int = 0
    keep_last: int = 5

    def __post_init__(self) -> None:
        rules = {
            "a window or a budget must be given": self.window is not None or self.budget is not None,
            "window must be positive": self.window is None or self.window > 0,
            "budget must not be negative": self.budget is None or self.budget >= 0,
            "0 < low <= trigger <= 1": 0 < self.low <= self.trigger <= 1,
            "cooldown must not be negative": self.cooldown >= 0,
            "keep_last must be at least 1 (the live turn)": self.keep_last >= 1,
        }
        for rule, kept in rules.items():
            if not kept:
                raise UsageError(f"eviction: {rule}", f"given: {self}")


@dataclass(frozen=True)
class Evicted:
    """A unit that left the context: its score then, and how many units the history had."""

    unit: Unit
    score: float
    at: int


class Evictor:
    """Takes the whole history, gives what stays in the prompt. What was evicted does not come back by itself.

    `archive` has all that was evicted, oldest eviction first; `last` the latest eviction; `peak` the longest
    prompt given out, in tokens.
    """

    def __init__(self, policy: Policy, limits: Limits) -> None:
        self.policy = policy
        self.limits = limits
        self.archive: list[Evicted] = []
        self.last: Selection | None = None
        self.peak = 0
        self._gone: set[int] = set()
        self._evicted_at = 0

    def __call__(self, units: Sequence[Unit]) -> list[Unit]:
        """The units that stay, in order; `units` is everything so far, evicted ones included.

        Raises:
            PinsOverBudget: pins and live turn are longer than the window, or the policy keeps more than it.
        """
        live = [unit for unit in units if unit.index not in self._gone]
        if self._due(live, len(units)):
            live = self._evict(units, live)
        total = _tokens(live)
        if self.limits.window is not None and total > self.limits.window:
            raise PinsOverBudget(
                f"the policy {self.policy.name} keeps {total} tokens, the prompt may have {self.limits.window}",
                "choose another policy",
            )
        self.peak = max(self.peak, total)
        return live

    def _due(self, live: Sequence[Unit], count: int) -> bool:
        limits = self.limits
        total = _tokens(live)
        if limits.window is not None and total > limits.window:
            return True
        if self.archive and count - self._evicted_at < limits.cooldown:
            return False
        if limits.window is not None and total > limits.trigger * limits.window:
            return True
        return limits.budget is not None and total - _fixed(live, limits.keep_last) > limits.budget

    def _evict(self, units: Sequence[Unit], live: Sequence[Unit]) -> list[Unit]:
        limits = self.limits
        of = dict(zip((unit.index for unit in units), self.policy.scores(units), strict=True))
        scores = [of[unit.index] for unit in live]
        room = [] if limits.budget is None else [limits.budget]
        if limits.window is not None:
            room.append(max(0, int(limits.low * limits.window) - _fixed(live, limits.keep_last)))
        self.last = select(live, scores, min(room), limits.keep_last, limits.window, self.policy.fill)
        for position in self.last.evicted:
            self._gone.add(live[position].index)
            self.archive.append(Evicted(live[position], scores[position], len(units)))
        self._evicted_at = len(units)
        return [live[position] for position in self.last.kept]


def _fixed(live: Sequence[Unit], keep_last: int) -> int:
    """Tokens of pins and of the last units."""
    free = [unit for unit in live if not unit.pinned]
    return _tokens([unit for unit in live if unit.pinned]) + _tokens(free[-keep_last:])


def _tokens(units: Sequence[Unit]) -> int:
    return sum(unit.tokens for unit in units)
