"""Select: which memory turns are worth imitating. One interface; a reason on every decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil
from typing import Protocol

from automem.train.recipe import Selection
from automem.train.turns import Episode, turns


@dataclass(frozen=True)
class Decision:
    """What a selector says about one turn: `reason` is one of few words, `detail` says more.

    `noop` marks turns in which nothing is written or asked: of them only a share is taken.
    """

    step: int
    call: int
    phase: str
    keep: bool
    reason: str
    detail: str = ""
    noop: bool = False
    score: float | None = None

    @property
    def key(self) -> tuple[int, int]:
        """The place of the turn in its episode."""
        return self.step, self.call


class Selector(Protocol):
    """Decides about the turns of one episode after the other."""

    name: str

    def decide(self, episode: Episode) -> Iterator[Decision]:
        """One decision for each memory turn, in order."""
        ...


class AllSelector:
    """Takes every turn: the baseline of selection."""

    name = "all"

    def decide(self, episode: Episode) -> Iterator[Decision]:
        """Take all."""
        for step in episode.steps():
            for turn in turns(step):
                noop = all(record.name == "DONE" for record in turn.call.operations)
                yield Decision(turn.step, turn.number, turn.call.phase, True, "all", noop=noop)


def select(
    episodes: Sequence[Episode], selector: Selector, settings: Selection, tell: Callable[[str], None]
) -> dict[Episode, list[Decision]]:
    """What is decided about every turn of `episodes`: those of least progress and surplus no-ops left out.

    Raises:
        UsageError: a trace is not what was played.
    """
    best = set(_best(episodes, settings.top_episodes))
    decided = {}
    for number, episode in enumerate(episodes, 1):
        found = [decision for decision in selector.decide(episode) if decision.phase in settings.phases]
        decided[episode] = found if episode in best else [_refused(one, "episode") for one in found]
        tell(f"selected {number}/{len(episodes)}: {_kept(decided[episode])} of {len(found)} turns")
    return decided if selector.name == "all" else _few_noops(decided, settings)


def _best(episodes: Sequence[Episode], share: float) -> list[Episode]:
    """The share of the episodes with most progress, at least one; earlier ones first among equals."""
    ranked = sorted(episodes, key=lambda episode: -episode.result.progress)
    return ranked[: max(1, ceil(share * len(ranked)))]


def _few_noops(decided: Mapping[Episode, list[Decision]], settings: Selection) -> dict[Episode, list[Decision]]:
    """No more no-ops than their share of a phase's rows; which of them stay is drawn by the seed.

    By phase, because many good questions in PLAN are no reason to learn that LOG mostly writes nothing.
    """
    kept = [(episode, one) for episode, found in decided.items() for one in found if one.keep]
    staying: set[tuple[str, tuple[int, int]]] = set()
    for phase in settings.phases:
        noops = [(episode.spec.id, one.key) for episode, one in kept if one.phase == phase and one.noop]
        others = sum(one.phase == phase and not one.noop for _, one in kept)
        most = int(settings.noop_share * others / (1 - settings.noop_share))
        staying |= set(sorted(noops, key=lambda place: _draw(settings.seed, place))[:most])
    return {
        episode: [
            _refused(one, "noop_share") if one.keep and one.noop and (episode.spec.id, one.key) not in staying else one
            for one in found
        ]
        for episode, found in decided.items()
    }


def _draw(seed: int, place: object) -> bytes:
    return blake2b(f"{seed} {place}".encode(), digest_size=8).digest()


def _refused(decision: Decision, reason: str) -> Decision:
    if not decision.keep:
        return decision
    return Decision(
        decision.step, decision.call, decision.phase, False, reason, decision.detail, decision.noop, decision.score
    )


def _kept(decisions: Sequence[Decision]) -> int:
    return sum(decision.keep for decision in decisions)
