"""Guesses at wrong names: the nearest one, and none where none is near."""

import pytest

from automem.errors import did_you_mean, nearest

OPTIONS = ("length", "autopickup", "wording", "letters", "levels", "patience", "character", "clock")


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ("lenght", "length"),
        ("LENGTH", "length"),
        ("autopick", "autopickup"),
        ("level", "levels"),
        ("char", "character"),
    ],
)
def test_a_slip_is_answered_with_the_name(wrong, name):
    assert nearest(wrong, OPTIONS) == name
    assert did_you_mean(wrong, OPTIONS) == f"did you mean '{name}'?"


@pytest.mark.parametrize(
    ("wrong", "names", "name"), [("sd", ["n", "se"], "se"), ("v1", ["v0", "cot"], "v0"), ("tyni", ["tiny"], "tiny")]
)
def test_a_short_name_may_have_one_slip(wrong, names, name):
    assert nearest(wrong, names) == name


@pytest.mark.parametrize("wrong", ["seed", "env", "orders", "horizon", "", "pickupauto?"])
def test_of_names_that_are_not_near_none_is_guessed(wrong):
    assert nearest(wrong, OPTIONS) is None
    assert did_you_mean(wrong, OPTIONS) == f"known: {', '.join(sorted(OPTIONS))}"


def test_without_names_there_is_nothing_to_guess():
    assert did_you_mean("x", ()) == "there are none"
