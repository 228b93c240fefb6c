"""NetHack's characters: the table is the game's own, and what it would not play is refused."""

import importlib
import importlib.util
import itertools
import re

import pytest

from automem import env as envs
from automem import plugins
from automem.errors import UsageError

if importlib.util.find_spec("nle") is None:
    pytest.skip("needs the package nle: pip install 'automem[envs]'", allow_module_level=True)

nethack = plugins.load_module(plugins.find(plugins.ENV, "nethack"))
character = importlib.import_module(f"{nethack.__name__}.character")

ROLES = ["arc", "bar", "cav", "hea", "kni", "mon", "pri", "rog", "ran", "sam", "tou", "val", "wiz"]
RACES = {"hum": "human", "elf": "elven", "dwa": "dwarven", "gno": "gnomish", "orc": "orcish"}
ALIGNMENTS = ("law", "neu", "cha")


def known(asked):
    try:
        character.check_character(asked)
    except UsageError:
        return False
    return True


def played(asked):
    """How the game greets the character that it makes of what is asked, whatever that is."""
    game = nethack.Game(nethack.NetHackChallenge(character=asked))
    try:
        for seed in itertools.count():
            message = " ".join(game.begin(seed).message.split())
            if greeting := re.search(r"You are an? ([a-z ]+)( [A-Z][a-z]+\.)?", message):
                return greeting[0]
    finally:
        game.close()


@pytest.mark.parametrize("race", RACES)
def test_those_are_known_that_the_game_makes_as_asked(race):
    """The game says race and alignment of everybody; one that it does not make becomes another."""
    for role, alignment in itertools.product(ROLES, ALIGNMENTS):
        asked = f"{role}-{race}-fem-{alignment}"
        told = played(asked)
        # The row ends before the name of a gnomish female Archeologist, who is the longest.
        as_asked = RACES[race] in told and alignment in told and (role.title() in told or not told.endswith("."))
        assert known(asked) == as_asked, (asked, told)


def test_a_valkyrie_is_a_woman():
    assert known("val-hum-fem-neu")
    assert not known("val-hum-mal-neu")


@pytest.mark.parametrize(
    "asked", ["@", "mon-hum-neu-mal", "mon-hum-mal-neu", "Mon", "valkyrie-dwarf", "gno", "priestess"]
)
def test_parts_in_any_order_and_at_any_length_are_known(asked):
    assert known(asked)


@pytest.mark.parametrize(
    ("asked", "error", "hint"),
    [
        (
            "xyz",
            "'xyz' is no role, race, gender or alignment",
            "role: arc bar cav hea kni mon pri ran rog sam tou val wiz",
        ),
        ("mnk-hum", "'mnk' is no role", "did you mean 'mon"),
        ("valkirie", "'valkirie' is no role", "did you mean 'valkyrie'?"),
        ("", "a part of it is empty", "as in mon-hum-mal-neu"),
        ("mon--neu", "a part of it is empty", "as in mon-hum-mal-neu"),
        ("m", "'m' is no role", "as in mon-hum-mal-neu"),
        ("mon-@", "'@' is no role", "the seed chooses the rest"),
        ("mon_hum", "'mon_hum' is no role", "did you mean 'mon"),
        ("mon-val", "two roles: monk and valkyrie", "as in"),
        ("mon-neu-law", "two alignments: neutral and lawful", "as in"),
        ("sam-elf", "there is no character 'sam-elf'", "samurai goes with race: hum; gender: mal fem; alignment: law"),
        (
            "val-mal",
            "there is no character 'val-mal'",
            "valkyrie goes with race: hum dwa; gender: fem; alignment: law neu",
        ),
        (
            "elf-law",
            "there is no character 'elf-law'",
            "elf goes with role: pri ran wiz; gender: mal fem; alignment: cha",
        ),
    ],
)
def test_another_character_is_refused(asked, error, hint):
    with pytest.raises(UsageError) as refused:
        envs.make("nethack", character=asked)
    assert error in refused.value.message
    assert hint in refused.value.hint
