"""Learning what not to forget: which units of history stay under a token budget (LRE, arXiv 2606.20954).

from automem.evict import ContextManager, Limits, make

manager = ContextManager(make("lre:scorer.json"), Limits(window=28_000))
messages = manager(messages)
"""

from __future__ import annotations

from automem.evict.archive import Archive, Recalled
from automem.evict.counting import Count, approximate_tokens
from automem.evict.evictor import Evicted, Evictor, Limits
from automem.evict.manager import ContextManager
from automem.evict.policies.base import Policy, make
from automem.evict.scorer import Scorer, load_scorer
from automem.evict.select import PinsOverBudget, Selection, select
from automem.evict.units import Unit, units_from_messages, units_from_steps

__all__ = [
    "Archive",
    "ContextManager",
    "Count",
    "Evicted",
    "Evictor",
    "Limits",
    "PinsOverBudget",
    "Policy",
    "Recalled",
    "Scorer",
    "Selection",
    "Unit",
    "approximate_tokens",
    "load_scorer",
    "make",
    "select",
    "units_from_messages",
    "units_from_steps",
]
