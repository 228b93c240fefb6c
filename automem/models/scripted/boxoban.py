"""Boxoban for `scripted:explorer`: push every boulder onto a fountain, by search on what the map shows.

A boulder hides the fountain it stands on, so LOG writes the fountains down at the start and PLAN asks for them. The
search is A* over pushes with a bound on its size; a level it cannot solve within it is played towards the best
position it has seen.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from automem.grammar import Operation
from automem.models.scripted.base import Prompt
from automem.models.scripted.explorer_sight import ASIDE, STEPS, Place, Sight

#: Positions that one search looks at.
LOOKED_AT = 500
#: How much nearness to the goals counts beside pushes made; above 1 the search is quicker and not the shortest.
GREED = 4

_GOAL = re.compile(r"fountain at (\d+),(\d+)")
_WALLS = "#|- "
_BOULDER, _FOUNTAIN = "`", "{"
_KEYWORD = "fountain at"


@dataclass(frozen=True)
class Board:
    """A position: where one can stand, the boulders, the player, and where boulders belong."""

    floor: frozenset[Place]
    boulders: frozenset[Place]
    player: Place
    goals: frozenset[Place]


def is_boxoban(sight: Sight) -> bool:
    """Whether this is a level of Boxoban: four directions only, and boulders on the map."""
    return not sight.diagonal and bool(sight.shown(_BOULDER))


def note(prompt: Prompt, sight: Sight) -> list[Operation]:
    """The fountains in sight, written down while they still are."""
    file = prompt.file("log")
    if file is None or "APPEND" not in prompt.offered or prompt.asked or sight.step != 1:
        return []
    return [Operation("APPEND", (file.name, f"{_KEYWORD} {x},{y}")) for x, y in sight.shown(_FOUNTAIN)]


def question(prompt: Prompt) -> list[Operation]:
    """Where the fountains were, once for each step."""
    file = prompt.file("log")
    if file is None or "SEARCH" not in prompt.offered or prompt.asked or prompt.request.step < 2:
        return []
    return [Operation("SEARCH", (file.name, _KEYWORD))]


def push(prompt: Prompt, sight: Sight) -> str | None:
    """The next step; None when there is nothing left to do or no way to do it."""
    assert sight.here is not None, "a question would have been answered"
    told = {(int(x), int(y)) for result in prompt.results for x, y in _GOAL.findall(result)}
    floor = frozenset(place for place, char in sight.cells() if char not in _WALLS)
    board = Board(
        floor=floor,
        boulders=frozenset(sight.shown(_BOULDER)),
        player=sight.here,
        goals=frozenset(sight.shown(_FOUNTAIN)) | frozenset(told & floor),
    )
    return first_step(board)


def first_step(board: Board) -> str | None:
    """The first step of a solution, or towards the best position that the search has seen."""
    start = _distance(board, board.boulders)
    best, found = start, None
    queue: list[tuple[int, int, int, frozenset[Place], Place, str | None]] = []
    heapq.heappush(queue, (start, 0, 0, board.boulders, board.player, None))
    seen: set[tuple[frozenset[Place], Place]] = set()
    while queue and len(seen) < LOOKED_AT:
        _, _, pushes, boulders, player, first = heapq.heappop(queue)
        reached = _reached(board, boulders, player)
        # Where the player can walk to is the same wherever in there he stands.
        if (boulders, min(reached)) in seen:
            continue
        seen.add((boulders, min(reached)))
        for moved, stands, step in _pushes(board, boulders, reached):
            left = _distance(board, moved)
            opening = first or step
            if left < best:
                best, found = left, opening
            if left == 0:
                return opening
            heapq.heappush(queue, (pushes + 1 + GREED * left, left, pushes + 1, moved, stands, opening))
    return found


def _pushes(
    board: Board, boulders: frozenset[Place], reached: dict[Place, str | None]
) -> Iterator[tuple[frozenset[Place], Place, str]]:
    """Every push from here: the boulders and the player after it, and the first step on the way to it."""
    for x, y in sorted(boulders):
        for name in ASIDE:
            dx, dy = STEPS[name]
            behind, ahead = (x - dx, y - dy), (x + dx, y + dy)
            if behind in reached and ahead in board.floor and ahead not in boulders and not _dead(board, ahead):
                yield boulders - {(x, y)} | {ahead}, (x, y), reached[behind] or name


def _reached(board: Board, boulders: frozenset[Place], player: Place) -> dict[Place, str | None]:
    """Where the player can walk -> the first step there, None where he stands."""
    ways: dict[Place, str | None] = {player: None}
    todo = deque([player])
    while todo:
        x, y = todo.popleft()
        for name in ASIDE:
            dx, dy = STEPS[name]
            there = (x + dx, y + dy)
            if there in board.floor and there not in boulders and there not in ways:
                ways[there] = ways[x, y] or name
                todo.append(there)
    return ways


def _dead(board: Board, place: Place) -> bool:
    """Whether a boulder could never leave this place, and does not belong there."""
    x, y = place
    shut = {name: (x + dx, y + dy) not in board.floor for name, (dx, dy) in STEPS.items() if name in ASIDE}
    return place not in board.goals and (shut["north"] or shut["south"]) and (shut["east"] or shut["west"])


def _distance(board: Board, boulders: frozenset[Place]) -> int:
    """Pushes that are needed at least: each goal is reached from its nearest boulder, none of them on it yet."""
    empty = board.goals - boulders
    free = boulders - board.goals
    if not empty:
        return 0
    return max(len(empty), sum(min((abs(x - a) + abs(y - b) for a, b in free), default=100) for x, y in empty))
