"""`scripted:explorer`: plays NetHack and MiniHack by the map on the screen and what memory adds to it.

It walks to the stairs down if it sees or remembers them, else to the nearest place behind which more may lie, through
doors, past boulders, and searches for hidden ways when nothing is left; in Boxoban it pushes (`boxoban.py`). LOG
writes down what the map cannot show:
stairs (the map hides them under whoever stands there), dead ends that have been looked at, a trail. Notes stand as
`L1 stairs down at 1,23,5` in a log, and as a row `1,23,5 | L1 stairs down` in a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from automem.grammar import Operation
from automem.models.scripted import boxoban, explorer_needs
from automem.models.scripted.base import FileEntry, Prompt, pick
from automem.models.scripted.explorer_sight import ASIDE, STEPS, Place, Sight, around, read_sight

#: Steps for which a course (a place to search, the order of goals, ends left out without memory) is kept.
COURSE = 25
#: What no way leads through at first: boulders and traps.
_RISKS = "`^"
STAIRS, DONE, BEEN = "stairs down", "done", "been"
#: Steps between two notes of where the player is.
TRAIL = 3

#: Ends about which memory is asked at a time, and how often.
ASKED, ROUNDS = 6, 3

_NOTE = re.compile(rf"L(\d+) ({STAIRS}|{DONE}|{BEEN}) at (?:\d+,)?(\d+),(\d+)")
_ROW = re.compile(rf"(?:\d+,)?(\d+),(\d+) \| L(\d+) ({STAIRS}|{DONE}|{BEEN})")
_KEY_OF_TWO = "a key is x,y"
_MENU = re.compile(r"\(end\)$|\(\d+ of \d+\)$")


class ExplorerPolicy:
    """Explores, descends, fights what stands in the way."""

    def reply(self, prompt: Prompt) -> list[Operation]:
        """Notes and DONE in LOG; in PLAN and GAMEPLAY a SEARCH where one can help, then an ACTION."""
        sight = read_sight(prompt.observation, prompt.actions, prompt.request.step)
        if prompt.phase == "log":
            if sight is not None and boxoban.is_boxoban(sight):
                return [*boxoban.note(prompt, sight), Operation("DONE", ())]
            return _log(prompt, sight)
        if sight is None:
            return [Operation("ACTION", (prompt.default_action,))]
        if sight.here is not None and boxoban.is_boxoban(sight):
            if searches := boxoban.question(prompt):
                return searches
            return [Operation("ACTION", (boxoban.push(prompt, sight) or _anywhere(sight) or prompt.default_action,))]
        wanted = _answer(prompt, sight) or explorer_needs.urgent(prompt, sight)
        if not wanted:
            wanted = _anywhere(sight) if sight.chance(12) else _questions(prompt, sight)
        if isinstance(wanted, list) and wanted:
            return wanted
        action = wanted or _explore(prompt, sight, _known(prompt, sight))
        return [Operation("ACTION", (action if action in prompt.actions else prompt.default_action,))]


# Questions


def _answer(prompt: Prompt, sight: Sight) -> list[Operation] | str | None:
    """The answer to what the game asks; None when it asks nothing: a question answered may stay in view."""
    if sight.here is not None:
        return None
    line = sight.message.rsplit("\n", 1)[-1]
    if line.endswith("--More--"):
        return "more"
    if _MENU.search(line):
        return "esc"
    if wanted := explorer_needs.answer(prompt, line):
        return wanted
    if "[yn" in line:
        return explorer_needs.key(prompt, "n")
    if line.endswith(("direction?", "direction)")):
        return explorer_needs.door_beside(sight) or "esc"
    return "esc"


def _anywhere(sight: Sight) -> str | None:
    """A step to any open side: out of whatever the map does not explain."""
    assert sight.here is not None, "a question would have been answered"
    ways = sight.walk(_RISKS)
    sides = [name for name in STEPS if ways.get(_next(sight.here, name)) == name]
    return sides[pick(len(sides), sight.step)] if sides else None


# Where to go


def _explore(prompt: Prompt, sight: Sight, known: dict[str, set[Place]]) -> str | None:
    here = sight.here
    assert here is not None, "a question would have been answered"
    deeper = explorer_needs.may_descend(sight)
    on_stairs = here in known[STAIRS] or (not _has_memory(prompt) and _maybe_on_stairs(sight))
    if "down" in prompt.actions and deeper and on_stairs:
        return "down"
    for avoid in (_RISKS, ""):
        ways = {place: step for place, step in sight.walk(avoid).items() if place != here}
        goals = [place for place in ways if deeper and (sight.at(place) == ">" or place in known[STAIRS])]
        goals = goals or [place for place in _ends(prompt, sight, ways) if place not in known[DONE]]
        if goals:
            return ways[_chosen(sight, goals, known)]
        door = _door(prompt, sight, ways)
        if door:
            return door
    return _search_walls(prompt, sight)


def _chosen(sight: Sight, goals: list[Place], known: dict[str, set[Place]]) -> Place:
    """The nearest goal; where the player has been before, and on some courses, the one farthest along the course.

    The map forgets dark rooms, so that goals come and go with the place: going to the nearest can go on for ever.
    """
    course = sight.step // COURSE
    again = sight.here in known[BEEN] and sight.step % TRAIL
    dx, dy = tuple(STEPS.values())[pick(len(STEPS), course)]
    return max(goals, key=lambda place: place[0] * dx + place[1] * dy) if again or course % 4 == 3 else goals[0]


def _ends(prompt: Prompt, sight: Sight, ways: Iterable[Place]) -> list[Place]:
    """Frontiers that can be reached; without memory, some are left out for a while, each in its turn."""
    ends = [place for place in ways if sight.is_frontier(place)]
    if _has_memory(prompt):
        return ends
    return [place for place in ends if pick(3, *place, sight.step // COURSE)]


def _maybe_on_stairs(sight: Sight) -> bool:
    """Without memory nothing tells what lies underfoot, but stairs that are in view are elsewhere."""
    return not sight.shown(">") and sight.chance(6)


def _door(prompt: Prompt, sight: Sight, ways: dict[Place, str]) -> str | None:
    """Open the door beside, or walk to the nearest closed one."""
    if "open" not in prompt.actions:
        return None
    if explorer_needs.door_beside(sight):
        return "open"
    doors = (place for place in ways if any(sight.is_closed_door(_next(place, name)) for name in ASIDE))
    return next((ways[place] for place in doors), None)


def _next(place: Place, name: str) -> Place:
    return place[0] + STEPS[name][0], place[1] + STEPS[name][1]


def _search_walls(prompt: Prompt, sight: Sight) -> str | None:
    """Walk to some end or wall and search there for hidden ways, for a while at each."""
    if "search" not in prompt.actions:
        return _anywhere(sight)
    ways = sight.walk("")
    course = sight.step // COURSE
    dead_ends = sorted(place for place in ways if len(sight.open_sides(place)) <= 2)
    walls = sorted(place for place in ways if 2 < len(sight.open_sides(place)) <= 5)
    ends = (dead_ends if pick(3, course) else walls) or dead_ends or walls
    goal = ends[pick(len(ends), course, 1)] if ends else sight.here
    step = ways[goal] if goal else ""
    # Turn by turn: a course has time enough to find what is hidden, and turns make hungry.
    return step or "search"


# Memory


def _map_file(prompt: Prompt) -> FileEntry | None:
    """The file for places: one called a map, else the first log or table."""
    usable = [file for file in prompt.files if file.kind in ("log", "table")]
    return next(iter([file for file in usable if "map" in file.name] or usable), None)


def _has_memory(prompt: Prompt) -> bool:
    return _map_file(prompt) is not None and "SEARCH" in {*prompt.offered, *(op.name for op in prompt.asked)}


def _questions(prompt: Prompt, sight: Sight) -> list[Operation]:
    """What to look up before a walk: the stairs of this level, and ends, nearest first, until one is new."""
    file = _map_file(prompt)
    if file is None or "SEARCH" not in prompt.offered or len(prompt.asked) > ASKED * (ROUNDS - 1):
        return []
    known = _known(prompt, sight)
    ends = [place for place in sight.walk("") if place == sight.here or sight.is_frontier(place)]
    asked = {operation.args[-1] for operation in prompt.asked}
    if known[STAIRS] or any(f"{x},{y}" in asked and (x, y) not in {*known[DONE], sight.here} for x, y in ends):
        return []
    keywords = [f"L{sight.level} {STAIRS}", *(f"{x},{y}" for x, y in ([] if sight.shown(">") else ends))]
    new = (keyword for keyword in keywords if keyword not in asked)
    return [Operation("SEARCH", (file.name, keyword)) for keyword in islice(new, ASKED)]


def _known(prompt: Prompt, sight: Sight) -> dict[str, set[Place]]:
    """Places of this level by what the results of this conversation say of them."""
    known: dict[str, set[Place]] = {STAIRS: set(), DONE: set(), BEEN: set()}
    told = "\n".join(prompt.results)
    notes = [match.groups() for match in _NOTE.finditer(told)]
    notes += [(level, what, x, y) for x, y, level, what in (match.groups() for match in _ROW.finditer(told))]
    for level, what, x, y in notes:
        if int(level) == sight.level:
            known[what].add((int(x), int(y)))
    return known


def _log(prompt: Prompt, sight: Sight | None) -> list[Operation]:
    done = [Operation("DONE", ())]
    file = _map_file(prompt)
    if sight is None or file is None:
        return done
    if notes := explorer_needs.notes(prompt, sight):
        return notes
    if sight.here is None:
        return done
    seen = [(STAIRS, place) for place in sight.shown(">")]
    if sight.is_frontier(sight.here):
        seen.append((DONE, sight.here))
    elif sight.step % TRAIL == 0:
        seen.append((BEEN, sight.here))
    if "in vain" in sight.message:
        seen += [(DONE, place) for place in around(sight.here) if sight.at(place) == "`"]
    if seen and "SEARCH" in prompt.offered and not any(op.args[0] == file.name for op in prompt.asked):
        return [Operation("SEARCH", (file.name, f"{x},{y}")) for _, (x, y) in seen]
    known = _known(prompt, sight)
    # A row holds one note, and having been somewhere is the least of them.
    new = [(what, at) for what, at in seen if at not in (set().union(*known.values()) if what == BEEN else known[what])]
    writes = list(_writes(prompt, file, sight, new))
    written = sum(op.name in ("UPSERT", "APPEND") and op.args[0] == file.name for op in prompt.asked)
    refused = bool(prompt.results) and _KEY_OF_TWO in prompt.results[-1]
    if not writes or (written and not refused) or written > len(seen):
        return done
    # Whether the table's keys have the level in them shows when a first write is answered.
    return writes if file.kind == "table" else writes + done


def _writes(prompt: Prompt, file: FileEntry, sight: Sight, notes: Iterable[tuple[str, Place]]) -> Iterable[Operation]:
    for what, (x, y) in notes:
        text = f"L{sight.level} {what}"
        if file.kind == "table" and "UPSERT" in prompt.offered:
            flat = any(_KEY_OF_TWO in result for result in prompt.results)
            yield Operation("UPSERT", (file.name, f"{x},{y}" if flat else f"{sight.level},{x},{y}", text))
        elif file.kind == "log" and "APPEND" in prompt.offered:
            yield Operation("APPEND", (file.name, f"{text} at {sight.level},{x},{y}"))
