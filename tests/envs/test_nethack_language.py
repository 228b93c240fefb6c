"""The language description: by hand, and against the compiled wrapper of the literature."""

import importlib
import importlib.util
import os
import random
import string
from pathlib import Path

import numpy as np
import pytest

from automem import env as envs
from automem import plugins

if importlib.util.find_spec("nle") is None:
    pytest.skip("needs the package nle: pip install 'automem[envs]'", allow_module_level=True)

nethack = plugins.load_module(plugins.find(plugins.ENV, "nethack"))
language = importlib.import_module(f"{nethack.__name__}.language")
glyphs = importlib.import_module(f"{nethack.__name__}.glyphs")

X, Y = 40, 10
ORACLE = os.environ.get("AUTOMEM_NLE_ORACLE", "")


def described(cells):
    """The description of a room's floor with `cells` (dx, dy) -> glyph."""
    screen = np.full((language.HEIGHT, language.WIDTH), FLOOR, dtype=np.int16)
    for (dx, dy), glyph in cells.items():
        screen[Y + dy, X + dx] = glyph
    return in_words(screen, X, Y)


def in_words(screen, x, y):
    lines = language.describe(screen, x, y)
    return "\n".join(f"{name} {distance} {language.enumerate_words(ways)}" for name, distance, ways in lines)


def glyph(name):
    return glyphs.NAMES.index(name)


FLOOR, DOG, WALL, BARS = (glyph(name) for name in ("room floor", "jackal", "vertical wall", "bars"))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({}, ""),
        ({(0, 0): DOG}, ""),
        ({(0, -1): DOG}, "jackal adjacent north"),
        ({(2, 2): DOG}, "jackal very near southeast"),
        ({(-5, 0): DOG}, "jackal near west"),
        ({(6, -1): DOG}, "jackal far eastnortheast"),
        ({(-3, 19 - Y): DOG, (-20, 0): DOG}, "jackal very far west\njackal far southsouthwest"),
        ({(0, -1): DOG, (1, 0): DOG}, "jackal adjacent north and east"),
        ({(0, -1): DOG, (1, 0): DOG, (-1, 0): DOG}, "jackal adjacent north, east, and west"),
        ({(3, 0): DOG, (4, 0): DOG, (0, 4): DOG}, "jackal near south\njackals near east"),
        ({(3, 0): WALL, (4, 0): WALL}, "vertical wall near east"),
        ({(10, 0): WALL, (3, 1): WALL}, ""),
    ],
)
def test_description(cells, words):
    assert described(cells) == words


def test_a_mass_noun_tells_its_second_list_twice_as_the_wrapper_does():
    told = described({(3, 0): BARS, (4, 0): BARS, (0, 4): BARS})
    assert told == "bars near east\nbars near east"


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("jackal", "jackals"),
        ("kitty", "kitties"),
        ("tame monkey", "tame monkeys"),
        ("lynx", "lynxes"),
        ("dwarf", "dwarves"),
        ("staff", "staves"),
        ("combat boots", "combat boots"),
        ("scroll labeled FOO", "scrolls labeled FOO"),
        ("lava", "area of lava"),
        ("leech", "leechs"),
    ],
)
def test_plurals(noun, plural):
    assert language.plural(noun) == plural


def screen_of(*rows):
    """A terminal's characters with `rows` at the top."""
    return np.array(
        [list(row.ljust(80).encode("latin-1")) for row in (*rows, *[""] * (24 - len(rows)))], dtype=np.uint8
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([""], ""),
        (["Hello.  ", "   -----"], "Hello."),
        (["A long message", "goes on.--More--", " |..|"], "A long message\ngoes on.--More--"),
        (
            ["|....   Weapons", "|....   a - a club", "|..     (end)", "|.."],
            "|....   Weapons\n|....   a - a club\n|..     (end)",
        ),
        (["      Things", "", "|.    a - b", "      (1 of 2)", "|..."], "Things\na - b\n(1 of 2)"),
        (["You see here 2 of them.", "|.."], "You see here 2 of them."),
    ],
)
def test_messages(rows, message):
    assert language.message(screen_of(*rows)) == message


def test_every_glyph_has_a_name_and_a_kind():
    assert len(glyphs.NAMES) == len(glyphs.KINDS) == len(glyphs.IS_FAR)
    assert all(glyphs.NAMES)
    assert all(glyphs.KINDS)
    assert {"monster", "pet", "object", "wall", "boulder", "statue", "trap", "lava"} <= set(glyphs.KINDS)


# Against the compiled wrapper


@pytest.fixture(scope="module")
def oracle():
    """The extension `nle_language_obsv` of the wheel balrog-nle 0.9.0 (Python 3.11)."""
    if not Path(ORACLE).is_file():
        pytest.skip("set AUTOMEM_NLE_ORACLE to the file nle_language_obsv*.so of the wheel balrog-nle 0.9.0")
    spec = importlib.util.spec_from_file_location("nle_language_obsv", ORACLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.NLELanguageObsv()


def compare(oracle, screen):
    """What differs, as (part, theirs, ours)."""
    x, y = int(screen.blstats[0]), int(screen.blstats[1])
    under = language.cursor(screen.glyphs, x, y, screen.tty_cursor)
    carried = language.inventory(screen.inv_strs, screen.inv_letters)
    parts = {
        "glyphs": (oracle.text_glyphs(screen.glyphs, screen.blstats), in_words(screen.glyphs, x, y)),
        "cursor": (oracle.text_cursor(screen.glyphs, screen.blstats, screen.tty_cursor), cursor_words(under)),
        "message": (oracle.text_message(screen.tty_chars), language.message(screen.tty_chars)),
        "inventory": (
            oracle.text_inventory(screen.inv_strs, screen.inv_letters),
            "\n".join(f"{letter}: {thing}" for letter, thing in carried),
        ),
    }
    pairs = ((part, theirs.decode("latin-1"), ours) for part, (theirs, ours) in parts.items())
    return [(part, theirs, ours) for part, theirs, ours in pairs if theirs != ours]


def cursor_words(under):
    return under if isinstance(under, str) else f"{under[1]} {under[2][0]} {under[0]}"


@pytest.mark.oracle
@pytest.mark.parametrize("place", [(X, Y), (0, 0), (78, 20)])
def test_every_glyph_is_told_as_the_wrapper_tells_it(oracle, place):
    x, y = place
    blstats = np.zeros(27, dtype=np.int64)
    blstats[:2] = x, y
    near = [(x + dx, y + dy) for dx in (-2, 0, 1, 2) for dy in (-2, 0, 1) if 0 <= x + dx < 79 and 0 <= y + dy < 21]
    for number in range(len(glyphs.NAMES)):
        for cells in ([near[0]], [*near, (3, 3), (4, 3), (5, 3)]):
            screen = np.full((language.HEIGHT, language.WIDTH), FLOOR, dtype=np.int16)
            for cx, cy in cells:
                screen[cy, cx] = number
            assert oracle.text_glyphs(screen, blstats).decode("latin-1") == in_words(screen, x, y)


def watch(oracle, env, actions, seeds, steps, differences):
    """Random play with every screen compared, those between pages included; returns how many were."""
    seen = 0
    for seed in seeds:
        draw = random.Random(seed)
        env._game.begin(seed)
        for _ in range(steps):
            outcome = env._game._press(env.rules.actions[draw.choice(actions)][0])
            if outcome.ending:
                break
            seen += 1
            differences += compare(oracle, outcome.screen)
    return seen


@pytest.mark.oracle
def test_real_observations_are_told_as_the_wrapper_tells_them(oracle):
    env = envs.make("nethack")
    commands = [name for name in env.actions if name not in string.ascii_letters]
    runs = ("far north", "far east", "far south", "far west", "search", "down", "esc")
    differences = []
    seen = watch(oracle, env, commands, range(12), 400, differences)
    seen += watch(oracle, env, runs, range(20, 32), 300, differences)
    env.close()
    assert seen > 4000
    assert differences == []


@pytest.mark.oracle
def test_observations_of_minihack_are_told_as_the_wrapper_tells_them(oracle):
    if importlib.util.find_spec("minihack") is None:
        pytest.skip("needs the package minihack: pip install 'automem[envs]'")
    differences, seen = [], 0
    for task in ("mazewalk-9x9", "corridor-r3", "corridorbattle-dark", "quest-easy", "quest-medium"):
        env = envs.make("minihack", task)
        seen += watch(oracle, env, env.actions, range(2), 120, differences)
        env.close()
    assert seen > 700
    assert differences == []
