"""The Boxoban part of scripted:explorer: pushing on boards drawn by hand."""

from __future__ import annotations

import pytest

from automem.models.scripted.boxoban import Board, first_step
from automem.models.scripted.explorer_sight import STEPS

ONE = """
##########
#@$.     #
##########"""
THREE = """
##########
#        #
#  $  .  #
#        #
# .  @   #
#    $   #
#  $   . #
#        #
##########"""
NARROW = """
##########
###   ####
### $ ####
#  .#.####
# $   ####
##@   ####
##########"""
LOST = """
#####
#$  #
#@ .#
#####"""


def board(drawn):
    rows = drawn.strip("\n").split("\n")
    cells = {(x, y): char for y, row in enumerate(rows) for x, char in enumerate(row)}

    def where(char):
        return frozenset(place for place, seen in cells.items() if seen == char)

    floor = frozenset(place for place, char in cells.items() if char != "#")
    return Board(floor, where("$"), min(where("@")), where("."))


def stepped(now, name):
    """The board after a step; a boulder that cannot be pushed is no way."""
    (x, y), (dx, dy) = now.player, STEPS[name]
    there, behind = (x + dx, y + dy), (x + 2 * dx, y + 2 * dy)
    boulders = set(now.boulders)
    if there in boulders:
        assert behind in now.floor and behind not in boulders
        boulders = boulders - {there} | {behind}
    assert there in now.floor
    return Board(now.floor, frozenset(boulders), there, now.goals)


@pytest.mark.parametrize(("drawn", "most"), [(ONE, 1), (THREE, 60), (NARROW, 60)])
def test_boards_are_solved(drawn, most):
    now = board(drawn)
    for _ in range(most):
        now = stepped(now, first_step(now))
        if now.goals <= now.boulders:
            return
    pytest.fail(f"not solved in {most} steps: {now}")


def test_a_boulder_in_a_corner_is_given_up():
    assert first_step(board(LOST)) is None


def test_the_same_board_gives_the_same_step():
    assert {first_step(board(THREE)) for _ in range(5)} == {first_step(board(THREE))}
