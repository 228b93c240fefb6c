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
