"""`History`: what scaffolds may know of the steps before this one."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice
from typing import Any

#: Positions whose visits are remembered, and how many of the latest are shown.
_VISITS_KEPT = 4096
_VISITS_SHOWN = 64


class History:
    """The last steps of an episode, as plain data for prompts and `logic.py`. Bounded in size."""

    def __init__(self, keep: int) -> None:
        self._steps: deque[dict[str, Any]] = deque(maxlen=keep)
        self._visits: OrderedDict[str, int] = OrderedDict()
        self._unchanged = 0
        self.step = 0

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
        self._steps.append(
            {
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
        )
        self._visit(next_state)
        self.step += 1

    def export(self) -> dict[str, Any]:
        """Plain data:

        - `step`: number of this step;
        - `steps`: the last ones, oldest first (observation, state, action, proposed, fallback, reward,
          progress, changed); `last`: the latest of them or None;
        - `unchanged`: for how many steps the env's own text has not changed;
        - `visits`: how often each of the latest positions was visited, keyed `x,y`.
        """
        shown = list(islice(reversed(self._visits.items()), _VISITS_SHOWN))
        return {
            "step": self.step,
            "steps": list(self._steps),
            "last": self._steps[-1] if self._steps else None,
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
