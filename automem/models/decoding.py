"""Requests to a model in this process, and how they are answered together, token by token."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from automem.errors import ModelFailure
from automem.models.batching import Batch
from automem.models.prefix_cache import PrefixCache


@dataclass(eq=False)
class Asked:
    """A request on its way: what to compute, how, and what was said; `done` is its end.

    `room` is the longest reply in tokens, `batch` how many requests are computed together at most.
    """

    ids: list[int]
    room: int
    temperature: float
    top_p: float
    batch: int
    seed: int
    guide: Any = None
    said: list[int] = field(default_factory=list)
    finish_reason: str = "length"
    done: Future[None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        # Counter-based: the n-th number of a stream is the same on every machine.
        self._chance = np.random.Generator(np.random.Philox(self.seed))

    def hears(self, logits: np.ndarray, ends: Collection[int]) -> bool:
        """Say the next token; whether another one is to follow. If not, the request is answered.

        Raises:
            ModelFailure: the logits are no numbers.
        """
        if self.done.cancelled():
            return False
        if np.isnan(logits).any():
            raise ModelFailure("the model computed logits that are no numbers")
        token = self._choose(logits)
        if token in ends:
            self.finish_reason = "stop"
        else:
            self.said.append(token)
            if self.guide is not None:
                self.guide.advance(token)
        if token not in ends and len(self.said) < self.room:
            return True
        if self.done.set_running_or_notify_cancel():
            self.done.set_result(None)
        return False

    def fail(self, error: Exception) -> None:
        """Tell whoever waits, if anybody still does."""
        if not self.done.done() and self.done.set_running_or_notify_cancel():
            self.done.set_exception(error)

    def _choose(self, logits: np.ndarray) -> int:
        """The next token, from float64 logits and this request's own random numbers."""
        if self.guide is not None:
            allowed = self.guide.get_tokens()
            free, logits = logits, np.full_like(logits, -np.inf)
            logits[allowed] = free[allowed]
        if self.temperature == 0:
            return int(logits.argmax())
        weights = np.exp((logits - logits.max()) / self.temperature)
        if self.top_p < 1:
            weights = _nucleus(weights, self.top_p)
        total = np.cumsum(weights)
        return int(np.searchsorted(total, self._chance.random() * total[-1], side="right"))


def _nucleus(weights: np.ndarray, top_p: float) -> np.ndarray:
    """Weights with all but the likeliest tokens of total probability `top_p` put to zero."""
    order = np.argsort(-weights, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    kept = np.zeros_like(weights)
    chosen = order[before < top_p * weights.sum()]
    kept[chosen] = weights[chosen]
    return kept


class Decoder:
    """Answers the requests to one model. `add` may be called from any thread, the rest from one."""

    def __init__(self, model: Any, ends: Collection[int]) -> None:
        self._waiting: deque[Asked] = deque()
        self._model = model
        self._ends = ends
        self._active: list[Asked] = []
        self._prefixes = PrefixCache()
        self._batch = Batch(model, self._prefixes)

    @property
    def busy(self) -> bool:
        """Whether there is somebody to answer."""
        return bool(self._active or self._waiting)

    @property
    def queue(self) -> int:
        """How many requests wait for a place in the batch."""
        return len(self._waiting)

    def add(self, asked: Asked) -> None:
        """Queue a request. Cancelled, it is not computed further."""
        self._waiting.append(asked)

    def cancel(self) -> None:
        """Cancel what is not answered."""
        for asked in (*self._active, *self._waiting):
            asked.done.cancel()

    def step(self) -> None:
        """One more token for each request of the batch. Who has finished leaves it, who waits may join."""
        said = [asked.said[-1] for asked in self._active]
        joining = self._joining()
        self._active += joining
        try:
            rows = list(self._batch.step(said)) if said else []
            rows.extend(self._batch.read([asked.ids for asked in joining]) if joining else [])
            going = [n for n, asked in enumerate(self._active) if self._goes_on(asked, rows[n])]
            if len(going) < len(self._active):
                self._batch.keep(going)
        except Exception as error:  # noqa: BLE001 - not this thread's to judge: whoever waits for a reply raises it
            for asked in self._active:
                asked.fail(error)
            self._active, self._batch = [], Batch(self._model, self._prefixes)
            return
        self._active = [self._active[n] for n in going]

    def _goes_on(self, asked: Asked, logits: np.ndarray) -> bool:
        """Whether the request has more to say; a fault of its grammar is its own."""
        try:
            return asked.hears(logits, self._ends)
        except Exception as error:  # noqa: BLE001 - as above
            asked.fail(error)
            return False

    def _joining(self) -> list[Asked]:
        """Requests for the batch, by what is unread of them: half as many as it has, or it is worth no stop."""
        waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
        waiting = [asked for asked in waiting if not asked.done.cancelled()]
        most = 0
        if len(waiting) * 2 >= len(self._active):
            most = max(0, min((asked.batch for asked in (*self._active, *waiting)), default=0) - len(self._active))
        self._waiting.extendleft(reversed(waiting[most:]))
        return sorted(waiting[:most], key=lambda asked: self._batch.unread(asked.ids))
