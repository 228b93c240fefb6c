"""`Policy`, and the names by which policies are made."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from automem.errors import UsageError, did_you_mean
from automem.evict.scorer import Scorer
from automem.evict.select import Fill
from automem.evict.units import Unit

if TYPE_CHECKING:
    from automem.evict.mlp import MlpScorer

#: Name -> where its class is; imported only when asked for.
POLICIES = {
    "full": "simple:Full",
    "window": "simple:Window",
    "lru": "simple:LeastRecentlyUsed",
    "tfidf": "lexical:TfIdf",
    "bm25": "lexical:Bm25",
    "embedding": "embedding:Embedding",
    "summary": "simple:Summary",
    "lre": "lre:Learned",
    "mlp": "mlp:Mlp",
}
#: Those that need a fitted scorer, which `NAME:PATH` names.
LEARNED = ("lre", "mlp")


class Policy(Protocol):
    """Scores history before anybody knows what will be asked: a policy sees the units so far and nothing else.

    `fill` is how scores and token costs become a choice.
    """

    name: str
    fill: Fill

    def scores(self, units: Sequence[Unit]) -> Sequence[float]:
        """One score for each unit of the whole history so far, evicted ones included; higher is worth more."""
        ...


def make(name: str, scorer: Scorer | MlpScorer | None = None) -> Policy:
    """The policy `name`; `lre:PATH` and `mlp:PATH` name the file of the scorer, plain `lre` and `mlp` take `scorer`.

    Raises:
        UsageError: no such policy, no scorer, or a package is missing.
    """
    kind, _, argument = name.partition(":")
    if kind not in POLICIES:
        raise UsageError(f"unknown eviction policy '{kind}'", did_you_mean(kind, POLICIES))
    module, _, attribute = POLICIES[kind].partition(":")
    made = getattr(import_module(f"automem.evict.policies.{module}"), attribute)
    if kind not in LEARNED and argument:
        raise UsageError(f"the policy {kind} takes no argument", f"given: {argument}")
    if kind in LEARNED and not argument and scorer is None:
        raise UsageError(f"the policy {kind} needs a scorer", f"name its file: {kind}:PATH")
    policy: Policy = made() if kind not in LEARNED else made.load(argument) if argument else made(scorer)
    return policy


def query(units: Sequence[Unit]) -> str:
    """What the agent is about, as far as it is known: pins and the live turn. Nothing of the future."""
    return "\n".join(unit.text for unit in units if unit.pinned or unit is units[-1])
