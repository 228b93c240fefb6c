"""`History`: what scaffolds may know of the steps before this one, and which of them are shown."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, Protocol

from automem.evict.archive import RECALLED, Archive, Recalled
from automem.evict.counting import approximate_tokens
from automem.evict.evictor import Evicted, Evictor
from automem.evict.units import Unit, step_text
from automem.trace import Call

#: Positions whose visits are remembered, and how many of the latest are shown.
_VISITS_KEPT = 4096
_VISITS_SHOWN = 64


PastStep = dict[str, Any]


class Summary:
    """What stands for the steps that left: the `text` so far, and the steps `leaving` that are not in it yet."""

    _HEADING = "# Summary of steps that are no longer shown"

    def __init__(self, limit: int) -> None:
        """`limit`: tokens that it may have as it is shown; what is longer is cut behind its last whole line."""
        self.limit = limit
        self.text = ""
        self.leaving: list[PastStep] = []

    def take(self, calls: Iterable[Call]) -> None:
        """Let the calls of a step write it anew; a blank reply leaves it as it was."""
        for call in calls:
            if call.phase == "summary":
                self.text = self._cut(call.reply.strip()) or self.text
                self.leaving = []

    def shown(self) -> str:
        """What stands above a prompt; empty as long as there is no summary."""
        return f"{self._quoted(self.text)}\n\n" if self.text else ""

    def _cut(self, text: str) -> str:
        def tokens(end: int) -> int:
            return approximate_tokens(self._quoted(text[:end]))

        if tokens(len(text)) <= self.limit:
            return text
        end = max(0, bisect_right(range(len(text) + 1), self.limit, key=tokens) - 1)
        return text[:end].rpartition("\n")[0] or text[:end]

    def _quoted(self, text: str) -> str:
        """With marks, so that nothing in it passes for a heading."""
        return "\n".join([self._HEADING, *(f"> {line}" for line in text.splitlines())])


class Shown(Protocol):
    """Which past steps prompts and logic see; `summary` stands for those that left, where there is one."""

    summary: Summary | None

    def add(self, step: PastStep) -> list[Evicted]:
        """Take note of a step; returns what is evicted for it."""
        ...

    def steps(self) -> list[PastStep]:
        """What is shown, oldest first."""
        ...

    def recall(self, query: str) -> list[Recalled] | None:
        """What fits `query` of the steps that were evicted; None: there is no archive of them."""
        ...


class LastSteps:
    """The last so many steps."""

    summary: Summary | None = None

    def __init__(self, keep: int) -> None:
        self._steps: deque[PastStep] = deque(maxlen=keep)

    def add(self, step: PastStep) -> list[Evicted]:
        """Nothing is evicted: old steps were never promised."""
        self._steps.append(step)
        return []

    def steps(self) -> list[PastStep]:
        """The last steps."""
        return list(self._steps)

    def recall(self, query: str) -> None:
        """Nothing is archived."""


class KeptSteps:
    """The steps that an eviction policy keeps under a token budget (LRE, section 2: one step is one unit)."""

    def __init__(
        self,
        evictor: Evictor,
        archive: Archive | None = None,
        recall: int = RECALLED,
        summary: Summary | None = None,
    ) -> None:
        """`archive` and `summary` take in what is evicted; `recall` is how many steps come back at a time."""
        self.summary = summary
        self._evictor = evictor
        self._archive = archive
        self._recall = recall
        self._units: list[Unit] = []
        self._steps: dict[int, PastStep] = {}

    def add(self, step: PastStep) -> list[Evicted]:
        """Take the step in and let the policy decide."""
        text = step_text(step["observation"], step["action"])
        self._units.append(Unit(len(self._units), text, approximate_tokens(text)))
        self._steps[self._units[-1].index] = step
        before = len(self._evictor.archive)
        self._evictor(self._units)
        evicted = self._evictor.archive[before:]
        left = [self._steps.pop(gone.unit.index) for gone in evicted]
        if self.summary is not None:
            self.summary.leaving += left
        if self._archive is not None:
            self._archive.add(evicted)
        return evicted

    def steps(self) -> list[PastStep]:
        """What was kept."""
        return list(self._steps.values())

    def recall(self, query: str) -> list[Recalled] | None:
        """The archived steps that fit `query` best."""
        return None if self._archive is None else self._archive.recall(query, self._recall)


class History:
    """The past of an episode, as plain data for prompts and `logic.py`.

    `evicted` is what was evicted after the latest step; the steps numbered in `hidden` are not shown.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._last: PastStep | None = None
        self.evicted: list[Evicted] = []
        self.hidden: set[int] = set()
        self._visits: OrderedDict[str, int] = OrderedDict()
        self._unchanged = 0
        self.step = 0

    @property
    def summary(self) -> Summary | None:
        """What stands for the steps that left, with the policy `summary`."""
        return self._shown.summary

    def start(self, state: dict[str, Any]) -> None:
        """Take note of where the episode starts."""
        self._visit(state)

    def record(
        self,
        *,
        observation: str,
        state: dict[str, Any],
        action: str,
        proposed: str | None,
        fallback: bool,
        reward: float,
        progress: float,
        next_observation: str,
        next_state: dict[str, Any],
    ) -> None:
        """Take note of one step and of what it led to."""
        changed = observation != next_observation
        self._unchanged = 0 if changed else self._unchanged + 1
        self._last = {
            "step": self.step,
            "observation": observation,
            "state": state,
            "action": action,
            "proposed": proposed,
            "fallback": fallback,
            "reward": reward,
            "progress": progress,
            "changed": changed,
        }
        self.evicted = self._shown.add(self._last)
        self._visit(next_state)
        self.step += 1

    def recall(self, query: str) -> list[Recalled] | None:
        """The evicted steps that fit `query`, best first; None: this history archives nothing."""
        return self._shown.recall(query)

    def export(self) -> dict[str, Any]:
        """Plain data:

        - `step`: number of this step;
        - `steps`: the last ones, or those that the policy of `context` keeps, oldest first (step, observation,
          state, action, proposed, fallback, reward, progress, changed); `last`: the latest of them or None;
        - `unchanged`: for how many steps the env's own text has not changed;
        - `visits`: how often each of the latest positions was visited, keyed `x,y`.
        """
        shown = list(islice(reversed(self._visits.items()), _VISITS_SHOWN))
        return {
            "step": self.step,
            "steps": [step for step in self._shown.steps() if step["step"] not in self.hidden],
            "last": self._last,
            "unchanged": self._unchanged,
            "visits": dict(reversed(shown)),
        }

    def _visit(self, state: dict[str, Any]) -> None:
        position = state.get("position")
        if position is None:
            return
        key = ",".join(str(part) for part in position)
        self._visits[key] = self._visits.pop(key, 0) + 1
        if len(self._visits) > _VISITS_KEPT:
            self._visits.popitem(last=False)
