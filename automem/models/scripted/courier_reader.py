"""`scripted:courier-reader`: plays the environment `courier` from the steps that its prompt shows, without a memory.

What it knows are the rooms, parcels and news in those steps and in a summary of older ones, and what it has seen
missing; of two answers it believes the newer one. So its score is the score of its context.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from automem.grammar import Operation
from automem.messages import Message
from automem.models.base import Completion, Request, estimate_usage
from automem.models.scripted.base import Prompt, ScriptedModel, leaving, read_prompt
from automem.models.scripted.courier import CourierPolicy, read_sight

_STEP = re.compile(r"^# Step (\d+)\n(.*?)(?=^# |\Z)", re.MULTILINE | re.DOTALL)
_FACT = re.compile(r"^step \d+: .+$", re.MULTILINE)


class CourierReader(ScriptedModel):
    """The courier as a model that reads all of its last prompt."""

    def __init__(self) -> None:
        super().__init__("courier-reader", _Reading([]))

    async def generate(self, messages: Sequence[Message], request: Request) -> Completion:
        """Answer with one action, or with a summary: each fact as it was last told, the newest first."""
        known = list(facts("\n".join(leaving(messages))))
        if read_prompt(messages, request).phase == "summary":
            text = "\n".join(_once(known))
            return Completion(text, estimate_usage(messages, text))
        return await ScriptedModel("courier-reader", _Reading(known)).generate(messages, request)


class _Reading:
    """The policy of `scripted:courier`; what is known stands for the answer to its search."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = "\n".join(known)

    def reply(self, prompt: Prompt) -> list[Operation]:
        return CourierPolicy().reply(replace(prompt, asked=(Operation("SEARCH", ()),), results=(self._known,)))


def _once(known: Sequence[str]) -> list[str]:
    told: dict[str, str] = {}
    for line in known:
        fact = line.partition(": ")[2]
        told.pop(fact, None)
        told[fact] = line
    return list(reversed(told.values()))


def facts(text: str) -> Iterator[str]:
    """What a prompt tells, oldest first, as lines `step 12: brass lamp at 3,1`."""
    yield from reversed(_FACT.findall(text.partition("# Step ")[0]))
    for number, observation in _STEP.findall(text):
        sight = read_sight(observation)
        if sight is None:
            continue
        here = f"step {number}: {{}} at {sight.place[0]},{sight.place[1]}"
        yield here.format(sight.room) + (f", no {sight.missed}" if sight.missed else "")
        for parcel, (x, y) in sight.parcels():
            yield f"step {number}: {parcel} at {x},{y}"
