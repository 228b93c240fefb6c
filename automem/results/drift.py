"""Drift: how often what was evicted was asked for again, and whether the scorer should be fitted anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from automem.errors import UsageError
from automem.evict.identifiers import identifiers
from automem.evict.units import step_text
from automem.play.folder import RunFolder
from automem.trace import Step, TraceReader

#: Share of evicted steps asked for again above which a scorer should be fitted anew (docs/eviction.md).
REFIT = 0.01


@dataclass(frozen=True)
class Drift:
    """What became of evicted steps.

    `lost`: it had an identifier that stood nowhere else in the prompt when it left. `shown_again`: a later
    observation had one of those. `asked_again`: a later action did. `recalls` and `hits`: RECALLs executed, and
    those that brought something.
    """

    episodes: int
    evicted: int
    lost: int
    shown_again: int
    asked_again: int
    recalls: int
    hits: int

    @property
    def rate(self) -> float | None:
        """Asked for again, as a share of the evicted steps."""
        return self.asked_again / self.evicted if self.evicted else None

    @property
    def refit(self) -> bool:
        """Whether that is too much."""
        return self.rate is not None and self.rate > REFIT


def drift(run: RunFolder) -> Drift:
    """The drift of the finished episodes of a run.

    Raises:
        UsageError: none is finished.
    """
    found = [episode_drift(run.trace_path(spec)) for spec, _ in run.finished()]
    if not found:
        raise UsageError(f"{run.path} has no finished episode", "play it first")
    return Drift(**{name: sum(getattr(one, name) for one in found) for name in Drift.__dataclass_fields__})


def episode_drift(path: Path) -> Drift:
    """The drift of one episode."""
    steps = list(TraceReader(path).steps())
    watch = _Watch(steps)
    for step in steps:
        watch.step(step)
    records = [record for step in steps for call in step.calls for record in call.operations]
    recalls = [record for record in records if record.name == "RECALL" and record.ok]
    return Drift(
        episodes=1,
        evicted=len(watch.lost),
        lost=sum(map(bool, watch.lost.values())),
        shown_again=len(watch.shown_again),
        asked_again=len(watch.asked_again),
        recalls=len(recalls),
        hits=sum(bool(record.hits) for record in recalls),
    )


class _Watch:
    """Goes through an episode. `lost` has for each evicted step the identifiers that left the prompt with it.

    What a summary has is lost with the first summary that has it no more.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._known = _held(
            message["content"] for step in steps[:1] for call in step.calls for message in call.messages
        )
        self._live: dict[int, frozenset[str]] = {}
        self._left: dict[int, frozenset[str]] = {}
        self._summary: frozenset[str] = frozenset()
        self.lost: dict[int, frozenset[str]] = {}
        self.shown_again: set[int] = set()
        self.asked_again: set[int] = set()

    def step(self, step: Step) -> None:
        """Take out what was evicted before this step, then see what it mentions."""
        gone = {eviction["step"]: self._live.pop(eviction["step"]) for eviction in step.evictions}
        still_there = frozenset().union(self._known, *self._live.values())
        self._left |= {number: held - still_there for number, held in gone.items()}
        summaries = [call.reply for call in step.calls if call.phase == "summary" and call.reply.strip()]
        self._summary = _held(summaries) if summaries else self._summary
        for number, held in self._left.items():
            self.lost[number] = self.lost.get(number, frozenset()) | (held - self._summary)
        shown, asked = _held([step.observation]), _held([step.action])
        self.shown_again |= {number for number, lost in self.lost.items() if lost & shown}
        self.asked_again |= {number for number, lost in self.lost.items() if lost & asked}
        self._live[step.t] = _held([step_text(step.observation, step.action)])


def _held(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(found for text in texts for found in identifiers(text))


def to_json(run: str, found: Drift) -> str:
    """The counts, `rate`, the threshold `refit_above` and whether to `refit`."""
    derived = {"rate": found.rate, "refit_above": REFIT, "refit": found.refit}
    return json.dumps({"run": run, **asdict(found), **derived}, indent=2)


def to_text(run: str, found: Drift) -> str:
    """The same for people."""
    lines = [f"{run}: {found.episodes} episodes, {found.evicted:,} steps evicted, {found.lost:,} of them with "
             "identifiers that stood nowhere else in the prompt"]  # fmt: skip
    if found.rate is not None:
        lines.append(f"asked for again by an action: {found.asked_again:,} ({100 * found.rate:.1f} %)")
        lines.append(f"shown again by the environment: {found.shown_again:,}")
    if found.recalls:
        lines.append(f"RECALL: {found.recalls:,}, with an answer {found.hits:,}")
    lines.append(f"above {100 * REFIT:.0f} %: fit the scorer anew, on runs like this one" if found.refit
                 else f"not above {100 * REFIT:.0f} %: no need to fit the scorer anew")  # fmt: skip
    return "\n".join(lines)
