"""The ten features: their definitions on small texts, and that the future never changes them."""

import random

import numpy as np
import pytest
from histories import random_units

from automem.evict import Unit
from automem.evict.features import AGENT_FEATURES, PrefixFeatures, agent_features
from automem.evict.identifiers import identifiers


def described(*texts, tokens=7):
    """The features of the last of `texts`, by name."""
    rows = agent_features([Unit(i, text, tokens) for i, text in enumerate(texts)])
    return dict(zip(AGENT_FEATURES, rows[-1].tolist(), strict=True))


def test_position_is_relative_to_the_prefix():
    rows = agent_features([Unit(i, "", 1) for i in range(4)])
    assert rows[:, 0].tolist() == [0, 1 / 2, 2 / 3, 3 / 4]


def test_sizes():
    found = described("Ann has 12 Apples, id 7")
    assert found["tokens"] == 7
    assert found["log_length"] == pytest.approx(np.log(24))
    assert (found["digits"], found["capitals"]) == (3, 2)


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("error: no such file", 1),
        ("Access DENIED.", 1),
        ("page not found", 1),
        ("Traceback (most recent call last)", 1),
        ("terror and failings", 0),
        ("", 0),
    ],
)
def test_the_error_flag(text, flag):
    assert described(text)["error"] == flag


@pytest.mark.parametrize(
    ("text", "flag"), [("```\nls\n```", 1), ("def f(x): pass", 1), ("x => y", 1), ("if (a) {\n", 1), ("a; b", 0)]
)
def test_the_code_flag(text, flag):
    assert described(text)["code"] == flag


def test_a_word_is_rare_as_long_as_at_most_one_earlier_unit_has_it():
    assert described("a b")["rare"] == 1
    assert described("a b", "A c")["rare"] == 1
    assert described("a b", "a c", "a b c d")["rare"] == 3 / 4
    assert described("")["rare"] == 0


def test_overlap_is_that_with_the_unit_before():
    assert described("one two", "two, three")["overlap"] == 1 / 3
    assert described("one two", "three", "one two")["overlap"] == 0
    assert described("", "")["overlap"] == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Token for desk: tk-9fa3.", ["tk-9fa3"]),
        ("see https://a.example/x?id=7, then", ["https://a.example/x?id=7"]),
        ("ann.b+c@mail.example.org wrote", ["ann.b+c@mail.example.org"]),
        ("in /srv/a/b-7 and ~/notes/x.md.", ["/srv/a/b-7", "~/notes/x.md"]),
        ("CS-65819-5BT | 48213 | 123", ["CS-65819-5BT", "48213"]),
        ("550e8400-e29b-41d4-a716-446655440000", ["550e8400-e29b-41d4-a716-446655440000"]),
        ("on 2019-03-12 at 12:30, 3.14159 or 1/2", []),
        ("plain words, well-known ones and / or", []),
    ],
)
def test_identifiers(text, found):
    assert identifiers(text) == found
    assert described(text)["identifier"] == bool(found)


def test_pinned_units_are_not_in_the_contest():
    units = [Unit(0, "rules rules 12", 9, pinned=True), Unit(1, "rules", 3)]
    rows = agent_features(units)
    assert not rows[0].any()
    assert rows[1].tolist() == agent_features([Unit(0, "rules", 3)])[0].tolist()


def test_looking_at_a_unit_does_not_make_it_part_of_the_prefix():
    prefix = PrefixFeatures()
    unit = Unit(0, "a b", 2)
    first = prefix.of(unit)
    assert first == prefix.of(unit) == prefix.add(unit)
    assert first != prefix.of(unit)


def check_causal(draw):
    units = random_units(draw)
    rows = agent_features(units)
    assert np.isfinite(rows).all()
    cut = draw.randrange(len(units) + 1)
    assert np.array_equal(rows[:cut], agent_features(units[:cut]))


def test_later_units_never_change_an_earlier_one():
    draw = random.Random(3)
    for _ in range(10_000):
        check_causal(draw)


@pytest.mark.slow
def test_later_units_never_change_an_earlier_one_in_many_histories():
    draw = random.Random(4)
    for _ in range(100_000):
        check_causal(draw)
