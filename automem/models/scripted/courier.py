"""`scripted:courier`: plays the environment `courier` through its memory, knowing only what the prompt says.

LOG writes down every room, parcel and piece of news in the observation, without looking first. PLAN asks
memory once for what the order needs, believes the newest answer, and goes there. A visit to a room without
the ordered parcel is written down as such (`attic at 3,1, no brass lamp`), where parcels are written down:
that is how a stale place is told from a good one, and how one SEARCH brings both. With nothing to believe, it
walks a tour through all rooms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from automem.grammar import Operation
from automem.models.scripted.base import Prompt

Place = tuple[int, int]

_ROOM = re.compile(r"^Room: (.+) at (\d),(\d) in a grid of (\d) by (\d)\.$", re.MULTILINE)
_HERE = re.compile(r"^Here: (.+)\.$", re.MULTILINE)
_CARRYING = re.compile(r"^Carrying: (.+)\.$", re.MULTILINE)
_ORDER = re.compile(r"^Order: (.+) to (.+)\.$", re.MULTILINE)
_NEWS = re.compile(r"^News: the (.+) is now in (\d),(\d)\.$", re.MULTILINE)
_PLACE = re.compile(r"\b(\d),(\d)\b")
_STEP = re.compile(r"\bstep (\d+)")


@dataclass(frozen=True)
class Sight:
    """An observation, read: `order` is (parcel, room), `news` (parcel, place)."""

    room: str
    place: Place
    grid: tuple[int, int]
    here: tuple[str, ...]
    carrying: bool
    order: tuple[str, str] | None
    news: tuple[str, Place] | None

    @property
    def missed(self) -> str | None:
        """The ordered parcel, if it is neither carried nor here."""
        return self.order[0] if self.order and not self.carrying and self.order[0] not in self.here else None

    def parcels(self) -> list[tuple[str, Place]]:
        """Every parcel whose place this tells."""
        seen = [(parcel, self.place) for parcel in self.here]
        return [*seen, self.news] if self.news else seen


class CourierPolicy:
    """Writes what it sees, searches for what it needs, walks to what it finds."""

    def reply(self, prompt: Prompt) -> list[Operation]:
        """Facts and DONE in LOG; in PLAN and GAMEPLAY a SEARCH where one can help, then an ACTION."""
        sight = read_sight(prompt.observation)
        if prompt.phase == "log":
            return _log(prompt, sight)
        if sight is None or sight.order is None:
            return [Operation("ACTION", ("wait",))]
        parcel, room = sight.order
        if sight.carrying and sight.room == room:
            return [Operation("ACTION", ("deliver",))]
        if not sight.carrying and parcel in sight.here:
            return [Operation("ACTION", ("take",))]
        return _plan(prompt, sight, wanted=room if sight.carrying else parcel)


def read_sight(observation: str) -> Sight | None:
    """The observation's facts; None where it is not one of Courier."""
    where = _ROOM.search(observation)
    if where is None:
        return None
    x, y, width, height = (int(number) for number in where.groups()[1:])
    here = _HERE.search(observation)
    carrying = _CARRYING.search(observation)
    order = _ORDER.search(observation)
    news = _NEWS.search(observation)
    return Sight(
        room=where.group(1),
        place=(x, y),
        grid=(width, height),
        here=tuple(here.group(1).split(", ")) if here and here.group(1) != "nothing" else (),
        carrying=carrying is not None and carrying.group(1) != "nothing",
        order=(order.group(1), order.group(2)) if order else None,
        news=(news.group(1), (int(news.group(2)), int(news.group(3)))) if news else None,
    )


def _log(prompt: Prompt, sight: Sight | None) -> list[Operation]:
    kind = _written_kind(prompt)
    writes = []
    if sight and kind and not prompt.asked:
        rooms, parcels = _file(prompt, kind, "room"), _file(prompt, kind, "parcel")
        facts = {(rooms, sight.room): _text(sight.place)}
        if sight.missed:
            facts[parcels, sight.room] = f"{_text(sight.place)}, no {sight.missed}"
        facts |= {(parcels, parcel): _text(place) for parcel, place in sight.parcels()}
        writes = [_write(kind, file, name, text) for (file, name), text in facts.items()]
    return [*writes, Operation("DONE", ())]


def _written_kind(prompt: Prompt) -> str | None:
    """The kind of file to write: a table where rows can be put in, else a log."""
    kinds = {file.kind for file in prompt.files}
    if "table" in kinds and "UPSERT" in prompt.offered:
        return "table"
    return "log" if "log" in kinds and "APPEND" in prompt.offered else None


def _write(kind: str, file: str, name: str, text: str) -> Operation:
    if kind == "table":
        return Operation("UPSERT", (file, name, text))
    return Operation("APPEND", (file, f"{name} at {text}"))


def _text(place: Place) -> str:
    return f"{place[0]},{place[1]}"


def _file(prompt: Prompt, kind: str, subject: str) -> str:
    """The file of `kind` for rooms or parcels: by its name, else the first."""
    names = [file.name for file in prompt.files if file.kind == kind]
    words = ("room", "place") if subject == "room" else ("parcel",)
    return next((name for name in names if any(word in name for word in words)), names[0])


def _plan(prompt: Prompt, sight: Sight, wanted: str) -> list[Operation]:
    kind = next((kind for kind in ("table", "log") if prompt.file(kind)), None)
    target: Place | None = None
    if sight.news and sight.news[0] == wanted:
        target = sight.news[1]
    elif prompt.asked:
        target = _newest_place(prompt.results, wanted)
    elif kind and "SEARCH" in prompt.offered:
        subject = "room" if sight.carrying else "parcel"
        return [Operation("SEARCH", (_file(prompt, kind, subject), wanted))]
    if target is None or target == sight.place:
        return [Operation("ACTION", (_tour(sight.place, sight.grid),))]
    return [Operation("ACTION", (_toward(sight.place, target),))]


def _newest_place(results: tuple[str, ...], wanted: str) -> Place | None:
    """Where `wanted` was last seen or said to be, unless it has been missed there since."""
    name = re.compile(rf"\b(no )?{re.escape(wanted)}\b")
    seen: tuple[tuple[int, int], Place] | None = None
    missed: dict[Place, tuple[int, int]] = {}
    for number, line in enumerate("\n".join(results).splitlines()):
        mention, where, step = name.search(line), _PLACE.search(line), _STEP.search(line)
        if mention is None or where is None:
            continue
        place = (int(where.group(1)), int(where.group(2)))
        age = (int(step.group(1)) if step else -1, number)
        if mention.group(1):
            missed[place] = max(age, missed.get(place, age))
        elif seen is None or age > seen[0]:
            seen = (age, place)
    if seen is None or missed.get(seen[1], seen[0]) > seen[0]:
        return None
    return seen[1]


def _toward(here: Place, there: Place) -> str:
    """The first step of a shortest way to another place, along x before y."""
    if here[0] != there[0]:
        return "east" if here[0] < there[0] else "west"
    return "north" if here[1] < there[1] else "south"


def _tour(here: Place, grid: tuple[int, int]) -> str:
    """The next step of a closed tour through all rooms: up in a snake, back along the first column.

    It needs an even height; with an odd height and an even width the grid is turned over its diagonal.
    """
    (x, y), (width, height) = here, grid
    if height % 2:
        turned = {"north": "east", "south": "west", "east": "north", "west": "south"}
        return turned[_tour((y, x), (height, width))] if width % 2 == 0 else "wait"
    if x == 0:
        return "south" if y > 0 else "east"
    if y % 2 == 0:
        return "east" if x < width - 1 else "north"
    return "west" if x > 1 or y == height - 1 else "north"
