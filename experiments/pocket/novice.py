"""`NoviceCourierPolicy`: the courier of `scripted:courier` with a beginner's memory habits.

It walks, takes and delivers without a fault, and it believes its memory; what it does badly is to keep that
memory. In PLAN it says first what it needs (`brass lamp`) and whether that `is here`, and before a step where it
wants to go and where it is (`2,0 from 3,1`): so every decision follows from words that stand just before it, which
makes it easy to learn. The same request always gets the same reply: chance comes from the request's sampling seed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from random import Random

from automem.grammar import Operation, render
from automem.models.scripted.base import Prompt
from automem.models.scripted.courier import CourierPolicy, Sight, read_sight

_MOVES = ("north", "south", "east", "west")
_PLACE = re.compile(r"\b\d,\d\b")


@dataclass(frozen=True)
class Habits:
    """Chances of a beginner's mistakes, each drawn anew at every turn.

    `idle`: a LOG writes nothing at all; `forgets`: a fact is left out of a LOG; `repeats`: one is written
    twice; `chatter`: a line that is of no use; `skips`: PLAN does not ask memory.
    """

    idle: float = 0.15
    forgets: float = 0.25
    repeats: float = 0.15
    chatter: float = 0.5
    skips: float = 0.12


class NoviceCourierPolicy:
    """A `Policy` that plays as `CourierPolicy` and keeps memory as `habits` say."""

    def __init__(self, habits: Habits | None = None) -> None:
        self._habits = habits or Habits()
        self._expert = CourierPolicy()

    def reply(self, prompt: Prompt) -> str:
        """The expert's operations with a beginner's omissions and additions, and the reason for a step."""
        chance = Random(f"novice/{prompt.request.sampling_seed}")
        operations = self._expert.reply(prompt)
        if prompt.phase == "log":
            return _written(self._log(prompt, operations, chance))
        if operations[0].name == "SEARCH" and chance.random() < self._habits.skips:
            operations = self._expert.reply(replace(prompt, offered=frozenset({"ACTION"})))
        return f"{_reason(prompt, operations[0])}{_written(operations)}"

    def _log(self, prompt: Prompt, operations: list[Operation], chance: Random) -> list[Operation]:
        facts, done = operations[:-1], operations[-1]
        if not facts or chance.random() < self._habits.idle:
            return [done]
        written: list[Operation] = []
        for fact in facts:
            if chance.random() >= self._habits.forgets:
                written += [fact, fact] if chance.random() < self._habits.repeats else [fact]
        if chance.random() < self._habits.chatter:
            written.append(_chatter(facts[0], chance))
        return [*written, done]


def _written(operations: list[Operation]) -> str:
    return "\n".join(render(operation) for operation in operations)


def _reason(prompt: Prompt, operation: Operation) -> str:
    """What is needed, in the first reply of a PLAN; before a step, where to and from where."""
    sight = read_sight(prompt.observation)
    if sight is None or sight.order is None:
        return ""
    wanted = sight.order[1] if sight.carrying else sight.order[0]
    if operation.args[0] in ("take", "deliver"):
        return f"{wanted} is here\n"
    needed = "" if prompt.asked else f"{wanted}\n"
    if operation.args[0] not in _MOVES:
        return needed
    return f"{needed}{_aim(prompt, sight)} from {sight.place[0]},{sight.place[1]}\n"


def _aim(prompt: Prompt, sight: Sight) -> str:
    """Where the ordered parcel, or its room, should be by the news or by what memory answered."""
    assert sight.order is not None
    wanted = sight.order[1] if sight.carrying else sight.order[0]
    if sight.news and sight.news[0] == wanted:
        return f"{sight.news[1][0]},{sight.news[1][1]}"
    told = [line for line in "\n".join(prompt.results).splitlines() if wanted in line and _PLACE.search(line)]
    seen = [line for line in told if f"no {wanted}" not in line]
    if not seen:
        return "nowhere"
    place = _PLACE.findall(seen[-1])[0]
    gone = any(place in line and _newer(line, seen[-1], told) for line in told if line not in seen)
    return f"{place} gone" if gone else place


def _newer(line: str, other: str, lines: list[str]) -> bool:
    """Whether one line of an answer is newer: by the steps of a table's rows, else by their order."""
    steps = [int(found[1]) if (found := re.search(r"step (\d+)", text)) else 0 for text in (line, other)]
    return (steps[0], lines.index(line)) > (steps[1], lines.index(other))


def _chatter(fact: Operation, chance: Random) -> Operation:
    """Something that no order will ever ask for."""
    key, text = chance.choice([("hands", "free or full"), ("walk", "one more step"), ("house", "all quiet")])
    if fact.name == "UPSERT":
        return Operation("UPSERT", (fact.args[0], key, text))
    return Operation("APPEND", (fact.args[0], f"{key}: {text}"))
