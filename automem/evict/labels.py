"""Labels: which units were worth keeping, told afterwards (LRE, section 4). Three ways, two without annotation."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from automem.errors import UsageError
from automem.evict.identifiers import identifiers

#: An identifier has to come back in at least this many later steps.
LATER_STEPS = 3
#: Share of an answer's content words that a unit has to cover. The paper's value, which was chosen with gold labels.
COVERAGE = 0.4

_STEPS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_COVERED = 0.9

_ARTICLES = frozenset(("a", "an", "the"))
_PUNCTUATION = re.compile(r"[^\w\s]")


def hindsight(texts: Sequence[str], task: str = "", later: int = LATER_STEPS) -> list[int]:
    """1 for a step that brings an identifier which comes back in at least `later` later steps.

    `texts` are the steps of one episode that was played without eviction. Identifiers that stand in the text of
    the task are known from there, so no step brings them. Within one step an identifier counts once.
    """
    brought_by: dict[str, int] = dict.fromkeys(identifiers(task), -1)
    returns: dict[str, int] = {}
    for step, text in enumerate(texts):
        for found in set(identifiers(text)):
            if found in brought_by:
                returns[found] = returns.get(found, 0) + 1
            else:
                brought_by[found] = step
    worth = {brought_by[found] for found, count in returns.items() if count >= later}
    return [int(step in worth) for step in range(len(texts))]


def coverage(texts: Sequence[str], answers: Sequence[str], threshold: float = COVERAGE) -> list[int]:
    """1 for a unit that has at least `threshold` of the content words of one of the final answers.

    Content words: lower case, without punctuation and articles. An answer without any labels nothing.
    """
    wanted = [content for answer in answers if (content := _content(answer))]
    units = [_content(text) for text in texts]
    return [int(any(len(has & content) / len(content) >= threshold for content in wanted)) for has in units]


def best_coverage(texts: Sequence[str], answers: Sequence[str]) -> list[float]:
    """The largest share of its content words that any unit has, for each answer that has some."""
    units = [_content(text) for text in texts]
    wanted = [content for answer in answers if (content := _content(answer))]
    return [max((len(has & content) / len(content) for has in units), default=0.0) for content in wanted]


def choose_threshold(best: Sequence[float]) -> float:
    """A threshold for `coverage` that needs no gold labels, from the `best_coverage` of the training answers.

    The highest of 0.2, 0.3 … 0.8 at which nine answers in ten are covered by some unit: every answer came from
    somewhere. The lowest, where none reaches that.
    """
    reached = [step for step in _STEPS if sum(share >= step for share in best) >= _COVERED * len(best)]
    return max(reached, default=_STEPS[0])


def gold(count: int, evidence: Collection[int]) -> list[int]:
    """1 for the units that annotators named as evidence, of `count`.

    Raises:
        UsageError: evidence that is not there.
    """
    if wrong := [index for index in evidence if not 0 <= index < count]:
        raise UsageError(f"evidence names unit {wrong[0]} of {count} units")
    return [int(index in evidence) for index in range(count)]


def _content(text: str) -> frozenset[str]:
    return frozenset(_PUNCTUATION.sub(" ", text.lower()).split()) - _ARTICLES
