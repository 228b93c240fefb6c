"""`NoviceCourierPolicy`: a courier with a beginner's memory habits, the teacher of the pocket model.

It walks, takes and delivers without a fault, and it believes its memory; what it does badly is to keep that
memory. LOG writes one fact: the room, its place, what lies there. PLAN says what it needs (`brass lamp`) and
whether that `is here`; else it asks memory, believes the place in the last line of the answer, and says before a
step where it goes and where it is (`2,0 from 3,1`): so every decision follows from words that stand just before
it, which makes it easy to learn. The same request always gets the same reply: chance comes from the request's
sampling seed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from automem.grammar import Operation, render
from automem.models.scripted.base import Prompt
from automem.models.scripted.courier import Place, Sight, _tour, _toward, read_sight

_PLACE = re.compile(r"\b(\d),(\d)\b")
_CHATTER = (("hands", "free or full"), ("walk", "one more step"), ("house", "all quiet"))


@dataclass(frozen=True)
class Habits:
    """Chances of a beginner's mistakes, each drawn anew at every turn.

    `idle`: a LOG writes nothing of use; `repeats`: the fact is written twice; `chatter`: a line that is of no
    use; `skips`: PLAN does not ask memory. `looks`, the one good habit, is still rare: a LOG looks up what is known
    of the room, then writes the fact once and nothing else.
    """

    looks: float = 0.1
    idle: float = 0.45
    repeats: float = 0.2
    chatter: float = 0.5
    skips: float = 0.06


class NoviceCourierPolicy:
    """A `Policy` that plays Courier and keeps memory as `habits` say."""

    def __init__(self, habits: Habits | None = None) -> None:
        self._habits = habits or Habits()

    def reply(self, prompt: Prompt) -> str:
        """One reply of LOG, PLAN or GAMEPLAY; `wait` where the prompt shows no game."""
        chance = Random(f"novice/{prompt.request.sampling_seed}")
        sight = read_sight(prompt.observation)
        if prompt.phase == "log":
            return "\n".join(map(render, self._log(prompt, sight, chance)))
        if sight is None or sight.order is None:
            return render(Operation("ACTION", ("wait",)))
        return self._plan(prompt, sight, chance)

    def _log(self, prompt: Prompt, sight: Sight | None, chance: Random) -> list[Operation]:
        done, written = [Operation("DONE", ())], list[Operation]()
        kept = _kept_file(prompt, ("UPSERT", "table"), ("APPEND", "log"))
        if sight is None or kept is None:
            return done
        place = f"{sight.place[0]},{sight.place[1]}"
        fact = _write(*kept, sight.room, f"{place}: {', '.join(sight.here) or 'nothing'}")
        if prompt.asked:
            return [fact, *done]
        if "SEARCH" in prompt.offered and chance.random() < self._habits.looks:
            return [Operation("SEARCH", (kept[1], sight.room))]
        if chance.random() >= self._habits.idle:
            written += [fact, fact] if chance.random() < self._habits.repeats else [fact]
        if chance.random() < self._habits.chatter:
            written.append(_write(*kept, *chance.choice(_CHATTER)))
        return written + done

    def _plan(self, prompt: Prompt, sight: Sight, chance: Random) -> str:
        assert sight.order is not None
        parcel, room = sight.order
        wanted, at_hand = (room, [sight.room]) if sight.carrying else (parcel, sight.here)
        if wanted in at_hand:
            return _act(f"{wanted} is here", "deliver" if sight.carrying else "take")
        said = "" if prompt.asked else f"{wanted}\n"
        asks = not prompt.asked and chance.random() >= self._habits.skips
        told = sight.news[1] if sight.news and sight.news[0] == wanted else None
        if asks and told is None and (kept := _kept_file(prompt, ("SEARCH", "table"), ("SEARCH", "log"))):
            return f"{said}{render(Operation('SEARCH', (kept[1], wanted)))}"
        return said + _step(sight, told or _last_place(prompt.results, wanted))


def _kept_file(prompt: Prompt, *ways: tuple[str, str]) -> tuple[str, str] | None:
    """Operation and file of the first way whose operation is offered on a file of its kind."""
    for operation, kind in ways:
        file = prompt.file(kind)
        if operation in prompt.offered and file:
            return operation, file.name
    return None


def _write(operation: str, file: str, name: str, text: str) -> Operation:
    if operation == "UPSERT":
        return Operation("UPSERT", (file, name, text))
    return Operation("APPEND", (file, f"{name} at {text}"))


def _last_place(results: tuple[str, ...], wanted: str) -> Place | None:
    """The first place in the last line of the answer that names what is wanted."""
    lines = [line.partition(": ")[2] for line in "\n".join(results).splitlines()]
    found = [place for line in lines if wanted in line and (place := _PLACE.search(line))]
    return (int(found[-1][1]), int(found[-1][2])) if found else None


def _step(sight: Sight, aim: Place | None) -> str:
    """A step towards a place; on the tour through all rooms where there is none, or where it is this one."""
    said = f"{aim[0]},{aim[1]}" if aim else "nowhere"
    step = _toward(sight.place, aim) if aim and aim != sight.place else _tour(sight.place, sight.grid)
    return _act(f"{said} from {sight.place[0]},{sight.place[1]}", step)


def _act(reason: str, action: str) -> str:
    return f"{reason}\n{render(Operation('ACTION', (action,)))}"
