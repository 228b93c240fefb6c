"""`ContextManager`: chat messages in, chat messages out, for anybody's agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from automem.errors import UsageError
from automem.evict.archive import RECALLED, Archive, Recalled
from automem.evict.counting import MESSAGE_TOKENS, Count, approximate_tokens
from automem.evict.evictor import Evicted, Evictor, Limits
from automem.evict.policies.base import Policy
from automem.evict.units import ChatMessage, Unit, units_from_messages

#: What a summary begins with.
SUMMARY = "Summary of what was said before and is left out here:\n"


class ContextManager:
    """Keeps one conversation within its limits.

        manager = ContextManager(make("lre:scorer.json"), Limits(window=28_000))
        messages = manager(messages)

    Call it before every request, either with the list it gave last and what came since, or with everything every
    time. Messages are given back as they came, in their order; tool calls are never parted from their results.
    A list that continues neither is a new conversation.
    """

    def __init__(
        self,
        policy: Policy,
        limits: Limits,
        count: Count = approximate_tokens,
        per_message: int = MESSAGE_TOKENS,
        pin: Callable[[Unit], bool] | None = None,
        store: Archive | None = None,
        summarise: Callable[[str], str] | None = None,
    ) -> None:
        """`count` is the tokenizer of the model that reads the messages; `pin` pins further units when they come.

        `store` takes in what is evicted, of one conversation after the other; None: each has its own. `summarise`
        writes what is evicted, with the summary so far before it, as one short text, which is pinned in its place.

        Raises:
            UsageError: the policy is `summary`, and there is no `summarise`.
        """
        if policy.name == "summary" and summarise is None:
            raise UsageError("the policy summary needs somebody who writes it", "give summarise=, a text to a text")
        self._policy = policy
        self._limits = limits
        self._count = count
        self._per_message = per_message
        self._pin = pin
        self._store = store
        self._summarise = summarise
        self._start()

    def _start(self) -> None:
        self._evictor = Evictor(self._policy, self._limits)
        self._all: list[ChatMessage] = []
        self._given: list[ChatMessage] = []
        self._units: list[Unit] = []
        self._live: list[Unit] = []
        self._long_term = self._store
        self._stored = 0
        self._summary: Unit | None = None
        self._summarised = 0

    @property
    def archive(self) -> list[Evicted]:
        """What was evicted, with scores."""
        return self._evictor.archive

    @property
    def peak(self) -> int:
        """Tokens of the longest list given back."""
        return self._evictor.peak

    @property
    def tokens(self) -> int:
        """Tokens of the list given back last."""
        return sum(unit.tokens for unit in self._live)

    def __call__(self, messages: Sequence[ChatMessage]) -> list[Any]:
        """The messages to send; with `summarise`, a user message with the summary stands before the first reply.

        Raises:
            PinsOverBudget: pins (the summary is one) and live turn are longer than the window.
            UsageError: a tool result without its call.
        """
        self._take(list(messages))
        self._live = self._evictor(self._with_summary())
        while self._summarise is not None and len(self.archive) > self._summarised:
            # The summary may be so long that more has to go.
            self._summary = self._summary_of(self._summarise)
            self._live = self._evictor(self._with_summary())
        self._file_away()
        self._given = [message for unit in self._live for message in unit.messages]
        return list(self._given)

    def recall(self, query: str, k: int = RECALLED) -> list[Recalled]:
        """The `k` evicted units that fit `query` best, best first; `.evicted.unit` has text and messages.

        Raises:
            UsageError: no `store` was given, and the package bm25s is missing.
        """
        return self.long_term.recall(query, k)

    @property
    def long_term(self) -> Archive:
        """All that was evicted, to be asked and saved.

        Raises:
            UsageError: as `recall`.
        """
        if self._long_term is None:
            self._long_term = Archive()
            self._file_away()
        return self._long_term

    def _file_away(self) -> None:
        if self._long_term is not None:
            self._long_term.add(self.archive[self._stored :])
            self._stored = len(self.archive)

    def _summary_of(self, summarise: Callable[[str], str]) -> Unit:
        """One unit for everything that was evicted so far."""
        before = [] if self._summary is None else [self._summary.text]
        new = [gone.unit.text for gone in self.archive[self._summarised :]]
        self._summarised = len(self.archive)
        text = SUMMARY + summarise("\n\n".join([*before, *new]))
        message = {"role": "user", "content": text}
        # No unit of the history has this index.
        return Unit(-1, text, self._count(text) + self._per_message, "task", True, (message,))

    def _with_summary(self) -> list[Unit]:
        if self._summary is None:
            return self._units
        opening = next((place for place, unit in enumerate(self._units) if unit.kind == "step"), len(self._units))
        return [*self._units[:opening], self._summary, *self._units[opening:]]

    def _take(self, messages: list[ChatMessage]) -> None:
        """Note what is new, and make the last unit anew: its results may only just have come."""
        known = next((known for known in (self._all, self._given) if messages[: len(known)] == known), None)
        if known is None:
            self._start()
            known = []
        new = messages[len(known) :]
        self._all += new
        open_unit = self._units.pop() if self._units and self._units[-1].kind == "step" else None
        tail = [*(open_unit.messages if open_unit else ()), *new]
        made = units_from_messages(tail, self._count, self._per_message, self._units)
        self._units += [self._pinned(unit) for unit in made]

    def _pinned(self, unit: Unit) -> Unit:
        if unit.pinned or self._pin is None or not self._pin(unit):
            return unit
        return Unit(unit.index, unit.text, unit.tokens, unit.kind, True, unit.messages)
