"""An observation of Crafter, read back into facts: all that `scripted:crafter` knows of the game."""

from __future__ import annotations

import re
from dataclasses import dataclass

from automem.models.scripted.base import pick

Place = tuple[int, int]

STEPS = {"north": (0, -1), "south": (0, 1), "west": (-1, 0), "east": (1, 0)}
WALKABLE = ("grass", "sand", "path")

_POSITION = re.compile(r"^Position: (-?\d+),(-?\d+)$", re.MULTILINE)
_FACING = re.compile(r"^Facing (\w+): (.+)$", re.MULTILINE)
_THING = re.compile(r"^- (\w+): (\d+) steps? ([\w-]+)$", re.MULTILINE)
_STATUS = re.compile(r"(\w+) (\d)/9")
_CARRIED = re.compile(r"^Inventory: (.+)$", re.MULTILINE)
_ITEM = re.compile(r"([a-z ]+?) (\d)")


@dataclass(frozen=True)
class Thing:
    """The nearest of a kind: steps to it, and its direction such as `north` or `south-west`."""

    distance: int
    direction: str

    @property
    def offset(self) -> Place | None:
        """Squares east and south, where the text leaves no doubt."""
        parts = self.direction.split("-")
        if len(parts) == 2 and self.distance != 2:
            return None
        scale = self.distance if len(parts) == 1 else 1
        dx, dy = (sum(STEPS[part][axis] for part in parts) for axis in (0, 1))
        return dx * scale, dy * scale


@dataclass(frozen=True)
class Sight:
    """An observation, read. `place` is None where the text tells no position."""

    place: Place | None
    facing: str
    ahead: str
    things: dict[str, Thing]
    status: dict[str, int]
    items: dict[str, int]
    asleep: bool
    step: int

    def beside(self, *kinds: str) -> str | None:
        """The direction of the first of `kinds` that is one step away."""
        found = (self.things[kind] for kind in kinds if kind in self.things)
        return next((thing.direction for thing in found if thing.distance == 1), None)

    def near(self, kind: str) -> bool:
        """Whether one of `kind` stands on the eight squares around."""
        thing = self.things.get(kind)
        return thing is not None and (thing.distance == 1 or (thing.distance == 2 and "-" in thing.direction))

    def blocked(self, direction: str) -> bool:
        """Whether that side is known not to be walkable."""
        if self.facing == direction:
            return self.ahead not in WALKABLE
        sides = (t.direction for k, t in self.things.items() if t.distance == 1 and k not in WALKABLE)
        return direction in sides

    def distance(self, *kinds: str) -> int:
        """Steps to the nearest of `kinds`; many where none is in view."""
        return min((self.things[kind].distance for kind in kinds if kind in self.things), default=99)

    @property
    def dark(self) -> bool:
        """Whether it is night: a day has 300 steps."""
        return 150 <= self.step % 300 <= 275

    def has(self, item: str, count: int = 1) -> bool:
        """Whether at least `count` of `item` are carried."""
        return self.items.get(item, 0) >= count

    def chance(self, every: int, period: int = 1) -> bool:
        """True in one of `every` periods of so many steps, by the step number."""
        return pick(every, every, self.step // period) == 0


def read_sight(observation: str, step: int) -> Sight | None:
    """The observation's facts; None where it is not one of Crafter."""
    facing = _FACING.search(observation)
    if facing is None:
        return None
    where = _POSITION.search(observation)
    carried = _CARRIED.search(observation)
    return Sight(
        place=(int(where[1]), int(where[2])) if where else None,
        facing=facing[1],
        ahead=facing[2],
        things={m[1]: Thing(int(m[2]), m[3]) for m in _THING.finditer(observation)},
        status={m[1]: int(m[2]) for m in _STATUS.finditer(observation)},
        items={m[1].strip(): int(m[2]) for m in _ITEM.finditer(carried[1])} if carried else {},
        asleep=observation.startswith("You are asleep"),
        step=step,
    )
