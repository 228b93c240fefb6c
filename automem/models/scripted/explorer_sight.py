"""An observation of NetHack or MiniHack, read back into facts: all that `scripted:explorer` knows of the game."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from automem.models.scripted.base import pick

Place = tuple[int, int]

STEPS: dict[str, Place] = {
    "north": (0, -1),
    "east": (1, 0),
    "south": (0, 1),
    "west": (-1, 0),
    "northeast": (1, -1),
    "southeast": (1, 1),
    "southwest": (-1, 1),
    "northwest": (-1, -1),
}
ASIDE = tuple(STEPS)[:4]
_OBJECTS = '$)[%!?/="(*'
_OPEN = ".#<>_{" + _OBJECTS
_CREATURES = re.compile(r"[A-Za-z@&':;]")
#: Creatures that hurt whoever hits them.
_LEAVE_ALONE = ("floating eye", "jelly", "acid blob", "gas spore", "cockatrice", "mold")

_PARTS = re.compile(r"^message:\n(.*?)\nlanguage observation:\n(.*?)\ncursor:\n(.*?)\nmap:\n(.*?)\n\ninventory:", re.S)
_CURSOR = re.compile(r"\(x=(\d+), y=(\d+)\)")
_LEVEL = re.compile(r"Dlvl:(\d+)")
_EXPERIENCE = re.compile(r"Xp:(\d+)")
_HEALTH = re.compile(r"HP:(-?\d+)\((\d+)\)")
_BESIDE = re.compile(r"^(.+?) (?:adjacent|1 step away \(directly reachable\)) (.+)$", re.M)
_WORD = re.compile(r"(?:north|south)?(?:east|west)|north|south")


@dataclass(frozen=True)
class Sight:
    """An observation, read. `here` is None while the cursor is elsewhere, as it is during a question."""

    message: str
    here: Place | None
    rows: tuple[str, ...]
    level: int
    health: tuple[int, int]
    experience: int
    status: str
    #: Direction -> name of what stands beside the player.
    beside: dict[str, str]
    diagonal: bool
    step: int

    def at(self, place: Place) -> str:
        """The character at a place, ' ' where nothing is known."""
        return self._cells.get(place, " ")

    def cells(self) -> Iterator[tuple[Place, str]]:
        """Every place of which something is known, with its character."""
        yield from self._cells.items()

    @cached_property
    def _cells(self) -> dict[Place, str]:
        return {(x, y): char for y, row in enumerate(self.rows, 1) for x, char in enumerate(row) if char != " "}

    def is_open(self, place: Place) -> bool:
        """Whether one can walk there, for all that the map shows; creatures move on."""
        return place in self._open

    @cached_property
    def _open(self) -> set[Place]:
        plain = {place for place, char in self._cells.items() if char in _OPEN or _CREATURES.match(char)}
        return plain | {place for place, char in self._cells.items() if char in "|-" and self.is_open_door(place)}

    def is_open_door(self, place: Place) -> bool:
        """An open door looks like a wall that runs across the wall it stands in."""
        char = self.at(place)
        x, y = place
        above, below, left, right = (self.at(p) for p in ((x, y - 1), (x, y + 1), (x - 1, y), (x + 1, y)))
        if char == "-":
            return above in "|-+" and below in "|-+" and left != "-" and right != "-"
        return char == "|" and left in "-+" and right in "-+" and above != "|" and below != "|"

    def is_closed_door(self, place: Place) -> bool:
        """A + that stands in a wall, which may not be in sight yet; elsewhere it is a book."""
        x, y = place
        pairs = (((x, y - 1), (x, y + 1)), ((x - 1, y), (x + 1, y)))
        sides = ["".join(self.at(p) for p in pair) for pair in pairs]
        return self.at(place) == "+" and any(side.strip() and set(side) <= set("|- ") for side in sides)

    @cached_property
    def _gaps(self) -> set[Place]:
        """Open places in a wall: where one is an open door, no diagonal step leads through it."""
        walls = {place for place, char in self._cells.items() if char in "|-+"}
        upright = {(x, y) for x, y in self._cells if {(x, y - 1), (x, y + 1)} <= walls}
        return upright | {(x, y) for x, y in self._cells if {(x - 1, y), (x + 1, y)} <= walls}

    def open_sides(self, place: Place) -> list[Place]:
        """Open places around."""
        return [near for near in around(place) if self.is_open(near)]

    def is_frontier(self, place: Place) -> bool:
        """Whether more may lie behind: something around is unknown, and what is open lies all on one side."""
        if place not in self._frontiers:
            self._frontiers[place] = self._leads_on(place)
        return self._frontiers[place]

    @cached_property
    def _frontiers(self) -> dict[Place, bool]:
        return {}

    def _leads_on(self, place: Place) -> bool:
        if all(near in self._cells for near in around(place)):
            return False
        sides = self.open_sides(place)
        reached, grown = sides[:1], sides[:1]
        while grown:
            grown = [side for side in sides if side not in reached and any(_joins(side, other) for other in grown)]
            reached += grown
        return len(reached) == len(sides)

    def walk(self, avoid: str) -> dict[Place, str]:
        """Every place that can be reached -> the first step there, nearest first; no way leads through `avoid`."""
        if avoid not in self._walks:
            self._walks[avoid] = self._walk(avoid)
        return self._walks[avoid]

    @cached_property
    def _walks(self) -> dict[str, dict[Place, str]]:
        return {}

    def _walk(self, avoid: str) -> dict[Place, str]:
        assert self.here is not None, "asked during a question"
        names = STEPS.items() if self.diagonal else [(name, STEPS[name]) for name in ASIDE]
        shut = {*self.foes, *(way for way, what in self.beside.items() if what.endswith(_LEAVE_ALONE))}
        # A door under some thing, with its walls not in sight, shows only by the game's refusal.
        if "move diagonally" in self.message:
            shut |= set(STEPS) - set(ASIDE)
        free = (self._open | {place for place, char in self._cells.items() if char in "`^"}) - {
            place for place, char in self._cells.items() if char in avoid
        }
        first: dict[Place, str] = {self.here: ""}
        queue = deque([self.here])
        while queue:
            place = queue.popleft()
            for name, (dx, dy) in names:
                target = (place[0] + dx, place[1] + dy)
                if target in first or target not in free or (place == self.here and name in shut):
                    continue
                if not (dx and dy and (place in self._gaps or target in self._gaps)):
                    first[target] = first[place] or name
                    queue.append(target)
        return first

    @cached_property
    def foes(self) -> list[str]:
        """Directions of creatures beside the player that are not its own and may be hit."""
        foes = []
        for name, (dx, dy) in STEPS.items():
            what = self.beside.get(name, "")
            near = self.at((self.here[0] + dx, self.here[1] + dy)) if self.here else " "
            if what and _CREATURES.match(near) and not what.startswith("tame ") and not what.endswith(_LEAVE_ALONE):
                foes.append(name)
        return foes if self.diagonal else [name for name in foes if name in ASIDE]

    def shown(self, char: str) -> list[Place]:
        """Places of a character on the map."""
        return [place for place, found in self._cells.items() if found == char]

    def chance(self, every: int) -> bool:
        """True at one of `every` steps, by the step number."""
        return pick(every, every, self.step) == 0


def around(place: Place) -> Iterator[Place]:
    """The eight neighbours."""
    return ((place[0] + dx, place[1] + dy) for dx, dy in STEPS.values())


def _joins(one: Place, other: Place) -> bool:
    """Whether two places share a side."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1]) == 1


@lru_cache(maxsize=16)
def read_sight(observation: str, actions: tuple[str, ...], step: int) -> Sight | None:
    """The observation's facts; None where it is not one of NetHack."""
    parts = _PARTS.search(observation)
    if parts is None:
        return None
    message, seen, cursor, screen = parts.groups()
    place = _CURSOR.search(cursor)
    *rows, status = screen.split("\n")
    level, health, experience = _LEVEL.search(status), _HEALTH.search(status), _EXPERIENCE.search(status)
    return Sight(
        message=message.strip(),
        here=(int(place[1]), int(place[2])) if place and cursor.startswith("Yourself") else None,
        rows=tuple(rows[:-1]),
        level=int(level[1]) if level else 1,
        health=(int(health[1]), int(health[2])) if health else (1, 1),
        experience=int(experience[1]) if experience else 1,
        status=status,
        beside=_beside(seen),
        diagonal="northeast" in actions,
        step=step,
    )


def _beside(seen: str) -> dict[str, str]:
    return {way: found[1] for found in _BESIDE.finditer(seen) for way in _WORD.findall(found[2])}
